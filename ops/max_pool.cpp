#include "qtape/ops/max_pool.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"
#include "qtape/ops/families/beats.h"
#include "qtape/ops/families/pool_kernels.h"
#include "qtape/ops/families/vectors.h"

namespace qtape {

using namespace kernels;
namespace {

/// Index of the maximum within its window, in a type for which vectors have as many lanes as
/// for T.
template <class T>
using Tap = std::conditional_t<sizeof(T) == 1, uint8_t,
                               std::conditional_t<sizeof(T) == 2, uint16_t, int32_t>>;

/// Channels that are compared at once, in one or two registers.
template <class T>
inline constexpr int64_t lanes = sizeof(T) == 1 ? 16 : 8;

/// The elements of x in a window.
struct Places {
  const Window& w;
  Range rows, columns;  // within the window, without padding
  int64_t row, column;  // of the window's first element

  Places(const Window& window, int64_t i, int64_t j)
      : w(window),
        rows(real_elements(w.h, i)),
        columns(real_elements(w.w, j)),
        row(w.h.start(i)),
        column(w.w.start(j)) {}

  /// Position in the image of element (p, q) of the window.
  int64_t at(int64_t p, int64_t q) const {
    return (row + p * w.h.dilation) * w.w.in + column + q * w.w.dilation;
  }
  /// Index of the first element in the window.
  int64_t first() const { return rows.begin * w.w.kernel + columns.begin; }
  /// Position of the last element in the image.
  int64_t last() const { return at(rows.end - 1, columns.end - 1); }

  /// Calls `body(place, tap)` in index order: the index of the position in the image and that
  /// of the element in the window.
  template <class Body>
  void each(const Body& body) const {
    for (int64_t p = rows.begin; p < rows.end; ++p) {
      for (int64_t q = columns.begin; q < columns.end; ++q) {
        body(at(p, q), p * w.w.kernel + q);
      }
    }
  }
};

/// Maxima of `count` channels of a window, and their indices unless `taps` is null.
template <class T>
inline void maxima(const Places& places, const T* x, int64_t n, int64_t count, T* y,
                   Tap<T>* taps) {
  for (int64_t c = 0; c < count; ++c) {
    T best = x[places.at(places.rows.begin, places.columns.begin) * n + c];
    int64_t number = places.first();
    places.each([&](int64_t place, int64_t tap) {
      const T value = x[place * n + c];
      if (beats(value, best)) {
        best = value;
        number = tap;
      }
    });
    y[c] = best;
    if (taps != nullptr) taps[c] = static_cast<Tap<T>>(number);
  }
}

/// The same for `lanes<T>` channels.
template <class T>
inline void vector_maxima(const Places& places, const T* x, int64_t n, T* y, Tap<T>* taps) {
  using Numbers = Vector<Tap<T>, lanes<T>>;
  Vector<T, lanes<T>> best, value;
  load(x + places.at(places.rows.begin, places.columns.begin) * n, best);
  Numbers number = Numbers{} + static_cast<Tap<T>>(places.first());
  places.each([&](int64_t place, int64_t tap) {
    load(x + place * n, value);
    decltype(value > best) better;
    compare_maxima(value, best, better);
    best = better ? value : best;
    number = better ? Numbers{} + static_cast<Tap<T>>(tap) : number;
  });
  std::memcpy(y, &best, sizeof best);
  if (taps != nullptr) std::memcpy(taps, &number, sizeof number);
}

template <class T>
using MaximaLoop = void (*)(const Pool*, const T*, T*, Tap<T>*, int64_t, int64_t);

/// Computes rows [begin, end) of y, and the indices of the maxima within their windows unless
/// `taps` is null. A vector may extend over the channels of the window: the next window then
/// overwrites its rest.
template <class T>
MaximaLoop<T> maxima_loop() {
  return simd::best_for<T, const Pool*, const T*, T*, Tap<T>*, int64_t, int64_t>(
      [](const Pool* pool, const T* x, T* y, Tap<T>* taps, int64_t begin, int64_t end) {
        const Window& w = pool->window;
        const int64_t n = pool->channels;
        const int64_t elements = pool->input_rows() * w.w.in * n;
        for (int64_t r = begin; r < end; ++r) {
          const int64_t image = r / w.h.out * w.h.in * w.w.in * n;
          for (int64_t j = 0; j < w.w.out; ++j) {
            const Places places(w, r % w.h.out, j);
            const int64_t at = (r * w.w.out + j) * n;
            const int64_t readable = elements - image - places.last() * n;
            const int64_t writable = end * w.w.out * n - at;
            for (int64_t c = 0; c < n; c += lanes<T>) {
              const T* from = x + image + c;
              Tap<T>* numbers = taps == nullptr ? nullptr : taps + at + c;
              if constexpr (sizeof(T) < sizeof(double)) {
                if (c + lanes<T> <= std::min(readable, writable)) {
                  vector_maxima(places, from, n, y + at + c, numbers);
                  continue;
                }
              }
              maxima(places, from, n, std::min(lanes<T>, n - c), y + at + c, numbers);
            }
          }
        }
      });
}

/// Channels whose gradients are summed at once.
constexpr int64_t block = 128;

template <class T, class At>
using SpreadLoop = void (*)(const Pool*, const At*, const T*, T*, int64_t, int64_t);

/// Index of an element of x within window (i, j); -1 if dilation skips it.
inline int64_t tap_of(const Window& w, int64_t row, int64_t column, int64_t i, int64_t j) {
  const int64_t p = row - w.h.start(i);
  const int64_t q = column - w.w.start(j);
  if (p % w.h.dilation != 0 || q % w.w.dilation != 0) return -1;
  return p / w.h.dilation * w.w.kernel + q / w.w.dilation;
}

/// Computes rows [begin, end) of dx: each element gets the gradients of the windows of which it
/// is the maximum.
template <class T, class At, bool accumulate>
SpreadLoop<T, At> spread_loop() {
  return simd::best_for<T, const Pool*, const At*, const T*, T*, int64_t, int64_t>(
      [](const Pool* pool, const At* taps, const T* dy, T* dx, int64_t begin, int64_t end) {
        const Window& w = pool->window;
        const int64_t n = pool->channels;
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
                  const auto tap = static_cast<At>(tap_of(w, r % w.h.in, k, i, j));
                  const int64_t first = ((image + i) * w.w.out + j) * n + c0;
                  const At* at = taps + first;
                  const T* from = dy + first;
                  QTAPE_INDEPENDENT
                  for (int64_t c = 0; c < width; ++c) {
                    sums[static_cast<size_t>(c)] += at[c] == tap ? double{from[c]} : 0.0;
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

/// to (+)= from where `at` is `tap`, otherwise 0, for `count` channels. A vector may extend
/// over them by up to `beyond` channels.
template <bool accumulate, class T, class At>
inline void hand_out(const At* at, At tap, const T* from, T* to, int64_t count,
                     int64_t beyond) {
  int64_t c = 0;
  if constexpr (sizeof(T) < sizeof(double)) {
    for (; c < count && c + lanes<T> <= count + beyond; c += lanes<T>) {
      Vector<At, lanes<T>> from_tap;
      Vector<T, lanes<T>> value, before;
      load(at + c, from_tap);
      load(from + c, value);
      const auto won = __builtin_convertvector(from_tap == tap, Vector<Tap<T>, lanes<T>>);
      value = won ? value : Vector<T, lanes<T>>{};
      if (accumulate) {
        load(to + c, before);
        value = before + value;
      }
      std::memcpy(to + c, &value, sizeof value);
    }
  }
  for (; c < count; ++c) {
    const T share = at[c] == tap ? from[c] : T{0};
    to[c] = accumulate ? to[c] + share : share;
  }
}

/// Variant for windows that do not overlap: an element gets the gradient of at most one window.
/// Elements are written in order, so that what a vector writes beyond one is overwritten.
template <class T, class At, bool accumulate>
SpreadLoop<T, At> hand_out_loop() {
  return simd::best_for<T, const Pool*, const At*, const T*, T*, int64_t, int64_t>(
      [](const Pool* pool, const At* taps, const T* dy, T* dx, int64_t begin, int64_t end) {
        const Window& w = pool->window;
        const int64_t n = pool->channels;
        const int64_t results = pool->output_rows() * w.w.out;
        for (int64_t r = begin; r < end; ++r) {
          const int64_t row = r % w.h.in;
          const Range rows = windows_over(w.h, row);
          const int64_t i = rows.begin;
          const bool over = rows.size() > 0 && (row - w.h.start(i)) % w.h.dilation == 0;
          const int64_t p = over ? (row - w.h.start(i)) / w.h.dilation : 0;
          const int64_t windows = (r / w.h.in * w.h.out + i) * w.w.out;
          T* to = dx + r * w.w.in * n;
          int64_t column = 0;  // columns written so far
          const auto skip_to = [&](int64_t next) {
            if (!accumulate) std::fill_n(to + column * n, (next - column) * n, T{0});
            column = next;
          };
          for (int64_t j = 0; over && j < w.w.out; ++j) {
            const Range columns = real_elements(w.w, j);
            const int64_t window = windows + j;
            for (int64_t q = columns.begin; q < columns.end; ++q) {
              skip_to(w.w.start(j) + q * w.w.dilation);
              const int64_t left = std::min((end - r) * w.w.in - column, results - window) - 1;
              hand_out<accumulate>(taps + window * n, static_cast<At>(p * w.w.kernel + q),
                                   dy + window * n, to + column * n, n,
                                   accumulate ? 0 : left * n);
              ++column;
            }
          }
          skip_to(w.w.in);
        }
      });
}

template <class T, class At>
SpreadLoop<T, At> gradient_loop(const Window& w, bool accumulate) {
  const bool apart = w.h.stride >= w.h.span() && w.w.stride >= w.w.span();
  if (apart) return accumulate ? hand_out_loop<T, At, true>() : hand_out_loop<T, At, false>();
  return accumulate ? spread_loop<T, At, true>() : spread_loop<T, At, false>();
}

/// Dispatches on the storage type of values or codes.
template <class Body>
Kernel dispatch_elements(DType dtype, const Body& body) {
  return is_compute(dtype) ? dispatch_compute(dtype, body) : dispatch_codes(dtype, body);
}

/// `T`: type of gradients; `At`: type of the saved indices.
template <class T, class At>
Kernel bind_gradient(const Pool& p, const Binding& b) {
  const int64_t grain = row_grain(p.window.w.in * p.channels, 1);
  return [p, grain, loop = gradient_loop<T, At>(p.window, b.accumulate(0)),
          taps = reinterpret_cast<const At*>(b.saved), dy = b.dy_as<const T>(), dx = b.dx<T>(0),
          threads = b.threads](const Step&) {
    parallel_for(threads, p.input_rows(), 1, grain,
                 [&](int64_t begin, int64_t end) { loop(&p, taps, dy, dx, begin, end); });
  };
}

}  // namespace

static_assert(Compute<MaxPool>);

TensorType MaxPool::infer(Inputs inputs) const {
  check_compute_or_codes(inputs[0]);
  return {inputs[0].dtype, pool(inputs[0].shape).result};
}

bool MaxPool::on_codes() const {
  return kernel.elements() <= 255;  // indices of elements fit 8 bits, and one value remains
}

Footprint MaxPool::footprint(Inputs inputs) const {
  const int64_t tap = is_compute(inputs[0].dtype) ? 4 : size_of(inputs[0].dtype) == 1 ? 1 : 0;
  return {.saved = tap * pool(inputs[0].shape).result.elements()};
}

Kernel MaxPool::forward(const Binding& b) const {
  if (b.output.elements() == 0) return {};
  const Pool p = pool(b.inputs[0].shape);
  const int64_t grain = row_grain(p.window.w.out * p.channels, p.window.kernel());
  return dispatch_elements(b.output.dtype, [&]<class T>() -> Kernel {
    return [p, grain, loop = maxima_loop<T>(), x = b.operand<const T>(0), y = b.y<T>(),
            taps = sizeof(T) == 2 ? nullptr : reinterpret_cast<Tap<T>*>(b.saved),
            threads = b.threads](const Step&) {
      parallel_for(threads, p.output_rows(), 1, grain,
                   [&](int64_t begin, int64_t end) { loop(&p, x, y, taps, begin, end); });
    };
  });
}

Kernel MaxPool::backward(const Binding& b) const {
  if (!b.wanted(0) || b.inputs[0].elements() == 0) return {};
  const Pool p = pool(b.inputs[0].shape);
  if (!is_compute(b.output.dtype)) {
    if (b.encoded_operand(0) == nullptr) return {};  // codes without a quantizer
    return bind_gradient<float, Tap<uint8_t>>(p, b);
  }
  return dispatch_compute(b.output.dtype,
                          [&]<class T>() { return bind_gradient<T, Tap<T>>(p, b); });
}

}  // namespace qtape
