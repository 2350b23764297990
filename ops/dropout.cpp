#include "qtape/ops/dropout.h"

#include <algorithm>
#include <cmath>

#include "qtape/core/random.h"
#include "qtape/kernels/simd/threads.h"
#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"
#include "qtape/ops/families/copy.h"

namespace qtape {

using namespace kernels;
namespace {

/// Number of elements per mask word.
constexpr int64_t word_bits = 64;

/// Random numbers of one step: element i is kept if the upper 53 of its random bits are at
/// least `threshold`, which is equivalent to uniform(index) >= rate.
struct Draws {
  Random random;
  uint64_t first = 0;  // index of element 0
  uint64_t threshold = 0;
};

/// Elements of the whole batch, and those before the elements of this process.
struct Part {
  uint64_t first = 0;
  uint64_t total = 0;
};

Part part_of(const Binding& b) {
  const auto n = static_cast<uint64_t>(b.output.elements());
  if (b.shards == nullptr) return {0, n};
  const uint64_t shard = n / static_cast<uint64_t>(b.shards->count);
  return {shard * static_cast<uint64_t>(b.shards->first),
          shard * static_cast<uint64_t>(b.shards->total)};
}

/// y = x * scale where the element is kept, else 0, for n elements from `begin`, a multiple of
/// 64.
template <class T>
auto drop_loop() {
  return simd::best_for<T, const Draws*, const T*, T*, uint64_t*, T, int64_t, int64_t>(
      [](const Draws* draws, const T* x, T* y, uint64_t* mask, T scale, int64_t begin,
         int64_t end) {
        const Draws d = *draws;
        for (int64_t i = begin; i < end; i += word_bits) {
          const int64_t n = std::min(word_bits, end - i);
          const uint64_t index = d.first + static_cast<uint64_t>(i);
          uint64_t word = 0;
          for (int64_t k = 0; k < n; ++k) {
            const auto bit = static_cast<uint64_t>(k);
            const bool through = (d.random.bits(index + bit) >> 11) >= d.threshold;
            word |= uint64_t{through} << bit;
          }
          mask[i / word_bits] = word;
          QTAPE_INDEPENDENT
          for (int64_t k = 0; k < n; ++k) {
            const bool through = ((word >> static_cast<uint64_t>(k)) & 1u) != 0;
            y[i + k] = through ? x[i + k] * scale : T(0);
          }
        }
      });
}

/// dx (+)= dy * scale where the mask bit is 1, else 0.
template <class T, bool accumulate>
auto gradient_loop() {
  return simd::best_for<T, const uint64_t*, const T*, T*, T, int64_t, int64_t>(
      [](const uint64_t* mask, const T* dy, T* dx, T scale, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i += word_bits) {
          const int64_t n = std::min(word_bits, end - i);
          const uint64_t word = mask[i / word_bits];
          QTAPE_INDEPENDENT
          for (int64_t k = 0; k < n; ++k) {
            const bool through = ((word >> static_cast<uint64_t>(k)) & 1u) != 0;
            const T gradient = through ? dy[i + k] * scale : T(0);
            dx[i + k] = accumulate ? dx[i + k] + gradient : gradient;
          }
        }
      });
}

}  // namespace

static_assert(Compute<Dropout>);

TensorType Dropout::infer(Inputs inputs) const {
  check_compute(inputs[0]);
  check(rate >= 0.0 && rate < 1.0, "rate must be in [0, 1), got {}", rate);
  return inputs[0];
}

Kernel Dropout::forward(const Binding& b) const {
  return dispatch_compute(b.output.dtype, [&]<class T>() -> Kernel {
    return [loop = drop_loop<T>(), copy = view_forward(b), x = b.operand<const T>(0),
            y = b.y<T>(), mask = reinterpret_cast<uint64_t*>(b.saved), n = b.output.elements(),
            rate = rate, key = Random(static_cast<uint64_t>(seed), 0).bits(0),
            scale = static_cast<T>(1.0 / (1.0 - rate)), stream = b.stream, status = b.status,
            part = part_of(b), threads = b.threads](const Step& step) {
      status->applied = step.mode.train && rate > 0.0;
      if (!status->applied) {
        if (copy) copy(step);
        return;
      }
      const Draws draws{Random(step.seed ^ key, stream), step.number * part.total + part.first,
                        static_cast<uint64_t>(std::ceil(rate * 0x1p53))};
      parallel_for(threads, n, 1024, pointwise_grain, [&](int64_t begin, int64_t end) {
        loop(&draws, x, y, mask, scale, begin, end);
      });
    };
  });
}

Kernel Dropout::backward(const Binding& b) const {
  if (!b.wanted(0)) return {};
  return dispatch_compute(b.output.dtype, [&]<class T>() -> Kernel {
    const auto loop = b.accumulate(0) ? gradient_loop<T, true>() : gradient_loop<T, false>();
    return [loop, copy = view_backward(b), dy = b.dy_as<const T>(), dx = b.dx<T>(0),
            mask = reinterpret_cast<const uint64_t*>(b.saved), n = b.output.elements(),
            scale = static_cast<T>(1.0 / (1.0 - rate)), status = b.status,
            threads = b.threads](const Step& step) {
      if (!status->applied) {
        if (copy) copy(step);
        return;
      }
      parallel_for(threads, n, 1024, pointwise_grain,
                   [&](int64_t begin, int64_t end) { loop(mask, dy, dx, scale, begin, end); });
    };
  });
}

}  // namespace qtape
