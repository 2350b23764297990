#include "qtape/ops/avg_pool.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"
#include "qtape/ops/families/pool_kernels.h"

namespace qtape {

using namespace kernels;
namespace {

/// Parameters of both loops.
struct Means {
  AvgPool op;
  Pool pool;

  double divisor(int64_t i, int64_t j) const {
    return static_cast<double>(op.divisor(pool, i, j));
  }
};

/// Channels that are summed at once.
constexpr int64_t block = 128;

template <class T>
using Loop = void (*)(const Means*, const T*, T*, int64_t, int64_t);

/// Computes rows [begin, end) of y.
template <class T>
Loop<T> means_loop() {
  return simd::best_for<T, const Means*, const T*, T*, int64_t, int64_t>(
      [](const Means* means, const T* x, T* y, int64_t begin, int64_t end) {
        const Window& w = means->pool.window;
        const int64_t n = means->pool.channels;
        std::array<double, block> sums;
        for (int64_t r = begin; r < end; ++r) {
          const int64_t i = r % w.h.out;
          const Range rows = real_elements(w.h, i);
          const int64_t top = r / w.h.out * w.h.in + w.h.start(i);
          for (int64_t j = 0; j < w.w.out; ++j) {
            const Range columns = real_elements(w.w, j);
            const double divisor = means->divisor(i, j);
            T* to = y + (r * w.w.out + j) * n;
            for (int64_t c0 = 0; c0 < n; c0 += block) {
              const int64_t width = std::min(block, n - c0);
              std::fill_n(sums.data(), width, 0.0);
              for (int64_t p = rows.begin; p < rows.end; ++p) {
                for (int64_t q = columns.begin; q < columns.end; ++q) {
                  const T* from = x + ((top + p) * w.w.in + w.w.start(j) + q) * n + c0;
                  QTAPE_INDEPENDENT
                  for (int64_t c = 0; c < width; ++c) {
                    sums[static_cast<size_t>(c)] += double{from[c]};
                  }
                }
              }
              QTAPE_INDEPENDENT
              for (int64_t c = 0; c < width; ++c) {
                to[c0 + c] = static_cast<T>(sums[static_cast<size_t>(c)] / divisor);
              }
            }
          }
        }
      });
}

/// Computes rows [begin, end) of dx.
template <class T, bool accumulate>
Loop<T> spread_loop() {
  return simd::best_for<T, const Means*, const T*, T*, int64_t, int64_t>(
      [](const Means* means, const T* dy, T* dx, int64_t begin, int64_t end) {
        const Window& w = means->pool.window;
        const int64_t n = means->pool.channels;
        std::array<double, block> sums;
        for (int64_t r = begin; r < end; ++r) {
          const Range rows = windows_over(w.h, r % w.h.in);
          const int64_t image = r / w.h.in * w.h.out;
          for (int64_t k = 0; k < w.w.in; ++k) {
            const Range columns = windows_over(w.w, k);
            T* to = dx + (r * w.w.in + k) * n;
            for (int64_t c0 = 0; c0 < n; c0 += block) {
              const int64_t width = std::min(block, n - c0);
              std::fill_n(sums.data(), width, 0.0);
              for (int64_t i = rows.begin; i < rows.end; ++i) {
                for (int64_t j = columns.begin; j < columns.end; ++j) {
                  const double divisor = means->divisor(i, j);
                  const T* from = dy + ((image + i) * w.w.out + j) * n + c0;
                  QTAPE_INDEPENDENT
                  for (int64_t c = 0; c < width; ++c) {
                    sums[static_cast<size_t>(c)] += double{from[c]} / divisor;
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

/// Calls `body(size)` with the number of elements of x in the windows along an axis, at least
/// once for each distinct number, until it returns false.
template <class Body>
bool all_sizes(const WindowAxis& w, const Body& body) {
  int64_t first = 0;
  for (; first < w.out && w.start(first) < 0; ++first) {
    if (!body(real_elements(w, first).size())) return false;
  }
  int64_t last = w.out - 1;
  for (; last >= first && w.start(last) + w.kernel > w.in; --last) {
    if (!body(real_elements(w, last).size())) return false;
  }
  return first > last || body(w.kernel);
}

}  // namespace

static_assert(Compute<AvgPool>);

TensorType AvgPool::infer(Inputs inputs) const {
  check_compute(inputs[0]);
  return {inputs[0].dtype, pool(inputs[0].shape).result};
}

Kernel AvgPool::forward(const Binding& b) const {
  if (b.output.elements() == 0) return {};
  const Means means{*this, pool(b.inputs[0].shape)};
  const Pool& p = means.pool;
  const int64_t grain = row_grain(p.window.w.out * p.channels, p.window.kernel());
  return dispatch_compute(b.output.dtype, [&]<class T>() -> Kernel {
    return [means, grain, loop = means_loop<T>(), x = b.operand<const T>(0), y = b.y<T>(),
            threads = b.threads](const Step&) {
      parallel_for(threads, means.pool.output_rows(), 1, grain,
                   [&](int64_t begin, int64_t end) { loop(&means, x, y, begin, end); });
    };
  });
}

Kernel AvgPool::backward(const Binding& b) const {
  if (!b.wanted(0) || b.inputs[0].elements() == 0) return {};
  const Means means{*this, pool(b.inputs[0].shape)};
  const int64_t grain = row_grain(means.pool.window.w.in * means.pool.channels, 1);
  return dispatch_compute(b.output.dtype, [&]<class T>() -> Kernel {
    const auto loop = b.accumulate(0) ? spread_loop<T, true>() : spread_loop<T, false>();
    return [means, grain, loop, dy = b.dy_as<const T>(), dx = b.dx<T>(0),
            threads = b.threads](const Step&) {
      parallel_for(threads, means.pool.input_rows(), 1, grain,
                   [&](int64_t begin, int64_t end) { loop(&means, dy, dx, begin, end); });
    };
  });
}

std::optional<int64_t> AvgPool::common_divisor(const Pool& p, int64_t most) const {
  if (p.window.kernel() > most) return std::nullopt;
  if (count_include_pad) return p.window.kernel();
  int64_t common = 1;
  const bool within = all_sizes(p.window.h, [&](int64_t rows) {
    return all_sizes(p.window.w, [&](int64_t columns) {
      common = std::lcm(common, rows * columns);
      return common <= most;
    });
  });
  return within ? std::optional(common) : std::nullopt;
}

}  // namespace qtape
