#include "qtape/ops/upsample.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"
#include "qtape/ops/families/pool_kernels.h"

namespace qtape {

using namespace kernels;
namespace {

/// x as rows of positions of `channels` elements; for 3 axes, one row per sample.
struct Repeats {
  int64_t rows = 0;
  int64_t width = 0;  ///< positions in a row
  int64_t channels = 0;
  int64_t down = 1;    ///< repeats of a row
  int64_t across = 1;  ///< repeats of a position
};

Repeats repeats_of(const Shape& x, const Shape& factor) {
  if (x.rank() == 3) return {x[0], x[1], x[2], 1, factor[0]};
  return {x[0] * x[1], x[2], x[3], factor[0], factor[1]};
}

/// Writes the rows of y that repeat rows [begin, end) of x. Positions have `size` bytes.
void repeat_rows(const Repeats& r, int64_t size, const std::byte* x, std::byte* y,
                 int64_t begin, int64_t end) {
  const auto bytes = static_cast<size_t>(size);
  const int64_t row = r.width * r.across * size;
  for (int64_t i = begin; i < end; ++i) {
    std::byte* first = y + i * r.down * row;
    std::byte* to = first;
    for (int64_t k = 0; k < r.width; ++k) {
      const std::byte* from = x + (i * r.width + k) * size;
      for (int64_t q = 0; q < r.across; ++q, to += size) std::memcpy(to, from, bytes);
    }
    for (int64_t p = 1; p < r.down; ++p) {
      std::memcpy(first + p * row, first, static_cast<size_t>(row));
    }
  }
}

/// Channels whose gradients are summed at once.
constexpr int64_t block = 128;

/// Computes rows [begin, end) of dx.
template <class T, bool accumulate>
auto sum_loop() {
  return simd::best_for<T, const Repeats*, const T*, T*, int64_t, int64_t>(
      [](const Repeats* r, const T* dy, T* dx, int64_t begin, int64_t end) {
        const int64_t n = r->channels;
        const int64_t row = r->width * r->across * n;
        std::array<double, block> sums;
        for (int64_t i = begin; i < end; ++i) {
          for (int64_t k = 0; k < r->width; ++k) {
            T* to = dx + (i * r->width + k) * n;
            for (int64_t c0 = 0; c0 < n; c0 += block) {
              const int64_t width = std::min(block, n - c0);
              std::fill_n(sums.data(), width, 0.0);
              for (int64_t p = 0; p < r->down; ++p) {
                for (int64_t q = 0; q < r->across; ++q) {
                  const T* from = dy + (i * r->down + p) * row + (k * r->across + q) * n + c0;
                  QTAPE_INDEPENDENT
                  for (int64_t c = 0; c < width; ++c) {
                    sums[static_cast<size_t>(c)] += double{from[c]};
                  }
                }
              }
              QTAPE_INDEPENDENT
              for (int64_t c = 0; c < width; ++c) {
                const T sum = static_cast<T>(sums[static_cast<size_t>(c)]);
                to[c0 + c] = accumulate ? to[c0 + c] + sum : sum;
              }
            }
          }
        }
      });
}

}  // namespace

static_assert(Compute<Upsample>);

TensorType Upsample::infer(Inputs inputs) const {
  check_compute_or_codes(inputs[0]);
  Shape y = inputs[0].shape;
  check(y.rank() == 3 || y.rank() == 4, "x must be [n, h, w, c] or [n, l, c], got {}",
        to_string(y));
  check(factor.rank() == y.rank() - 2,
        "factor must have {} numbers, one for each spatial axis, got {}", y.rank() - 2,
        to_string(factor));
  for (int i = 0; i < factor.rank(); ++i) {
    const int64_t extent = y[1 + i];
    check(factor[i] >= 1, "factor must be at least 1 along axis {}, got {}", 1 + i, factor[i]);
    check(extent <= Shape::max_elements / factor[i],
          "{} times {} elements along axis {} are more than 2^48", factor[i], extent, 1 + i);
    y = y.with(1 + i, extent * factor[i]);
  }
  return {inputs[0].dtype, y};
}

Kernel Upsample::forward(const Binding& b) const {
  if (b.output.elements() == 0) return {};
  const Repeats r = repeats_of(b.inputs[0].shape, factor);
  const int64_t size = r.channels * size_of(b.output.dtype);
  const int64_t grain = std::max<int64_t>(1, copy_grain / (b.output.bytes() / r.rows));
  return [r, size, grain, x = b.operand<const std::byte>(0), y = b.result,
          threads = b.threads](const Step&) {
    parallel_for(threads, r.rows, 1, grain,
                 [&](int64_t begin, int64_t end) { repeat_rows(r, size, x, y, begin, end); });
  };
}

Kernel Upsample::backward(const Binding& b) const {
  if (!b.wanted(0) || !is_compute(b.output.dtype) || b.output.elements() == 0) return {};
  const Repeats r = repeats_of(b.inputs[0].shape, factor);
  const int64_t grain = row_grain(r.width * r.channels, r.down * r.across);
  return dispatch_compute(b.output.dtype, [&]<class T>() -> Kernel {
    const auto loop = b.accumulate(0) ? sum_loop<T, true>() : sum_loop<T, false>();
    return [r, grain, loop, dy = b.dy_as<const T>(), dx = b.dx<T>(0),
            threads = b.threads](const Step&) {
      parallel_for(threads, r.rows, 1, grain,
                   [&](int64_t begin, int64_t end) { loop(&r, dy, dx, begin, end); });
    };
  });
}

}  // namespace qtape
