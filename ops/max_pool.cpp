#include "qtape/ops/max_pool.h"

#include <algorithm>
#include <array>
#include <limits>

#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"
#include "qtape/ops/families/pool_kernels.h"

namespace qtape {

using namespace kernels;
namespace {

constexpr int64_t most_places = std::numeric_limits<int32_t>::max();

/// Whether `x` takes the place of `best`: NaN beats numbers, and the first wins.
template <class T>
inline bool beats(T x, T best) {
  return (x > best) | ((x != x) & (best == best));
}

/// Calls `body(place)` for the elements of window (i, j) that lie in x, in index order. Places
/// are numbers of positions in an image.
template <class Body>
inline void each_place(const Window& w, int64_t i, int64_t j, const Body& body) {
  const Range rows = real_elements(w.h, i);
  const Range columns = real_elements(w.w, j);
  for (int64_t p = rows.begin; p < rows.end; ++p) {
    const int64_t row = (w.h.start(i) + p * w.h.dilation) * w.w.in + w.w.start(j);
    for (int64_t q = columns.begin; q < columns.end; ++q) body(row + q * w.w.dilation);
  }
}

template <class T>
using MaximaLoop = void (*)(const Pool*, const T*, T*, int32_t*, int64_t, int64_t);

/// The rows [begin, end) of y, and the places of their elements.
template <class T>
MaximaLoop<T> maxima_loop() {
  return simd::best_for<T, const Pool*, const T*, T*, int32_t*, int64_t, int64_t>(
      [](const Pool* pool, const T* x, T* y, int32_t* places, int64_t begin, int64_t end) {
        const Window& w = pool->window;
        const int64_t n = pool->channels;
        for (int64_t r = begin; r < end; ++r) {
          const T* image = x + r / w.h.out * w.h.in * w.w.in * n;
          for (int64_t j = 0; j < w.w.out; ++j) {
            T* best = y + (r * w.w.out + j) * n;
            int32_t* at = places + (r * w.w.out + j) * n;
            bool first = true;
            each_place(w, r % w.h.out, j, [&](int64_t place) {
              const T* from = image + place * n;
              const auto number = static_cast<int32_t>(place);
              if (first) {
                std::copy_n(from, n, best);
                std::fill_n(at, n, number);
                first = false;
                return;
              }
              QTAPE_INDEPENDENT
              for (int64_t c = 0; c < n; ++c) {
                const bool better = beats(from[c], best[c]);
                best[c] = better ? from[c] : best[c];
                at[c] = better ? number : at[c];
              }
            });
          }
        }
      });
}

template <class Code>
using CodesLoop = void (*)(const Pool*, const Code*, Code*, int64_t, int64_t);

/// The same of codes, without places.
template <class Code>
CodesLoop<Code> codes_loop() {
  return simd::best<const Pool*, const Code*, Code*, int64_t, int64_t>(
      [](const Pool* pool, const Code* x, Code* y, int64_t begin, int64_t end) {
        const Window& w = pool->window;
        const int64_t n = pool->channels;
        for (int64_t r = begin; r < end; ++r) {
          const Code* image = x + r / w.h.out * w.h.in * w.w.in * n;
          for (int64_t j = 0; j < w.w.out; ++j) {
            Code* best = y + (r * w.w.out + j) * n;
            std::fill_n(best, n, std::numeric_limits<Code>::lowest());
            each_place(w, r % w.h.out, j, [&](int64_t place) {
              const Code* from = image + place * n;
              QTAPE_INDEPENDENT
              for (int64_t c = 0; c < n; ++c) best[c] = from[c] > best[c] ? from[c] : best[c];
            });
          }
        }
      });
}

/// Channels whose gradients are summed at once.
constexpr int64_t block = 128;

template <class T>
using SpreadLoop = void (*)(const Pool*, const int32_t*, const T*, T*, int64_t, int64_t);

/// The rows [begin, end) of dx: each element gets the gradients of the windows that it won.
template <class T, bool accumulate>
SpreadLoop<T> spread_loop() {
  return simd::best_for<T, const Pool*, const int32_t*, const T*, T*, int64_t, int64_t>(
      [](const Pool* pool, const int32_t* places, const T* dy, T* dx, int64_t begin,
         int64_t end) {
        const Window& w = pool->window;
        const int64_t n = pool->channels;
        std::array<double, block> sums;
        for (int64_t r = begin; r < end; ++r) {
          const Range rows = windows_over(w.h, r % w.h.in);
          const int64_t image = r / w.h.in * w.h.out;
          for (int64_t k = 0; k < w.w.in; ++k) {
            const Range columns = windows_over(w.w, k);
            const auto place = static_cast<int32_t>(r % w.h.in * w.w.in + k);
            T* to = dx + (r * w.w.in + k) * n;
            for (int64_t c0 = 0; c0 < n; c0 += block) {
              const int64_t width = std::min(block, n - c0);
              std::fill_n(sums.data(), width, 0.0);
              for (int64_t i = rows.begin; i < rows.end; ++i) {
                for (int64_t j = columns.begin; j < columns.end; ++j) {
                  const int64_t first = ((image + i) * w.w.out + j) * n + c0;
                  const int32_t* at = places + first;
                  const T* from = dy + first;
                  QTAPE_INDEPENDENT
                  for (int64_t c = 0; c < width; ++c) {
                    sums[static_cast<size_t>(c)] += at[c] == place ? double{from[c]} : 0.0;
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

/// The same where no two windows overlap: an element gets the gradient of one, or none.
template <class T, bool accumulate>
SpreadLoop<T> hand_out_loop() {
  return simd::best_for<T, const Pool*, const int32_t*, const T*, T*, int64_t, int64_t>(
      [](const Pool* pool, const int32_t* places, const T* dy, T* dx, int64_t begin,
         int64_t end) {
        const Window& w = pool->window;
        const int64_t n = pool->channels;
        for (int64_t r = begin; r < end; ++r) {
          const Range rows = windows_over(w.h, r % w.h.in);
          const int64_t image = r / w.h.in * w.h.out;
          for (int64_t k = 0; k < w.w.in; ++k) {
            const Range columns = windows_over(w.w, k);
            T* to = dx + (r * w.w.in + k) * n;
            if (rows.begin >= rows.end || columns.begin >= columns.end) {
              if (!accumulate) std::fill_n(to, n, T{0});
              continue;
            }
            const auto place = static_cast<int32_t>(r % w.h.in * w.w.in + k);
            const int64_t first = ((image + rows.begin) * w.w.out + columns.begin) * n;
            const int32_t* at = places + first;
            const T* from = dy + first;
            QTAPE_INDEPENDENT
            for (int64_t c = 0; c < n; ++c) {
              const T won = at[c] == place ? from[c] : T{0};
              to[c] = accumulate ? to[c] + won : won;
            }
          }
        }
      });
}

template <class T>
SpreadLoop<T> gradient_loop(const Window& w, bool accumulate) {
  const bool apart = w.h.stride >= w.h.span() && w.w.stride >= w.w.span();
  if (apart) return accumulate ? hand_out_loop<T, true>() : hand_out_loop<T, false>();
  return accumulate ? spread_loop<T, true>() : spread_loop<T, false>();
}

}  // namespace

static_assert(Compute<MaxPool>);

TensorType MaxPool::infer(Inputs inputs) const {
  check_compute_or_codes(inputs[0]);
  const Pool p = pool(inputs[0].shape);
  const int64_t places = p.window.h.in * p.window.w.in;
  check(places <= most_places, "images may have 2^31 - 1 positions, got {}", places);
  return {inputs[0].dtype, p.result};
}

Footprint MaxPool::footprint(Inputs inputs) const {
  if (!is_compute(inputs[0].dtype)) return {};
  return {.saved =
              static_cast<int64_t>(sizeof(int32_t)) * pool(inputs[0].shape).result.elements()};
}

Kernel MaxPool::forward(const Binding& b) const {
  if (b.output.elements() == 0) return {};
  const Pool p = pool(b.inputs[0].shape);
  const int64_t grain = row_grain(p.window.w.out * p.channels, p.window.kernel());
  if (!is_compute(b.output.dtype)) {
    return dispatch_codes(b.output.dtype, [&]<class Code>() -> Kernel {
      return [p, grain, loop = codes_loop<Code>(), x = b.operand<const Code>(0),
              y = b.y<Code>(), threads = b.threads](const Step&) {
        parallel_for(threads, p.output_rows(), 1, grain,
                     [&](int64_t begin, int64_t end) { loop(&p, x, y, begin, end); });
      };
    });
  }
  return dispatch_compute(b.output.dtype, [&]<class T>() -> Kernel {
    return [p, grain, loop = maxima_loop<T>(), x = b.operand<const T>(0), y = b.y<T>(),
            places = reinterpret_cast<int32_t*>(b.saved), threads = b.threads](const Step&) {
      parallel_for(threads, p.output_rows(), 1, grain,
                   [&](int64_t begin, int64_t end) { loop(&p, x, y, places, begin, end); });
    };
  });
}

Kernel MaxPool::backward(const Binding& b) const {
  if (!b.wanted(0) || !is_compute(b.output.dtype) || b.inputs[0].elements() == 0) return {};
  const Pool p = pool(b.inputs[0].shape);
  const int64_t grain = row_grain(p.window.w.in * p.channels, 1);
  return dispatch_compute(b.output.dtype, [&]<class T>() -> Kernel {
    const auto loop = gradient_loop<T>(p.window, b.accumulate(0));
    return [p, grain, loop, places = reinterpret_cast<const int32_t*>(b.saved),
            dy = b.dy_as<const T>(), dx = b.dx<T>(0), threads = b.threads](const Step&) {
      parallel_for(threads, p.input_rows(), 1, grain,
                   [&](int64_t begin, int64_t end) { loop(&p, places, dy, dx, begin, end); });
    };
  });
}

}  // namespace qtape
