#include "qtape/ops/cast.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"
#include "qtape/ops/families/copy.h"

namespace qtape {
namespace {

/// Elements that are converted through double at once.
constexpr int64_t cast_block = 512;

using LoadLoop = void (*)(const std::byte*, double*, int64_t);
using StoreLoop = void (*)(const double*, std::byte*, int64_t);

/// Calls `body.template operator()<T>()` with the storage type of any dtype.
template <class Body>
auto dispatch_any(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::S32:
      return body.template operator()<int32_t>();
    case DType::S16:
      return body.template operator()<int16_t>();
    case DType::U16:
      return body.template operator()<uint16_t>();
    case DType::S8:
      return body.template operator()<int8_t>();
    case DType::U8:
      return body.template operator()<uint8_t>();
    default:
      return dispatch_float(dtype, body);
  }
}

/// Nearest integer of x, half to even, clamped to the range of T; 0 for NaN.
template <class T>
inline T saturate(double x) {
  constexpr double low = std::numeric_limits<T>::min();
  constexpr double high = std::numeric_limits<T>::max();
  // Adding 1.5 * 2^52 leaves no fraction bits: |x| < 2^51 rounds to an integer.
  constexpr double magic = 0x1.8p52;
  const double number = x == x ? x : 0.0;
  const double lifted = number < low ? low : number;
  const double bounded = lifted > high ? high : lifted;
  return static_cast<T>(static_cast<int32_t>((bounded + magic) - magic));
}

template <class T>
inline T from_double(double x) {
  if constexpr (std::is_integral_v<T>) {
    return saturate<T>(x);
  } else {
    return Storage<T>::store(static_cast<typename Storage<T>::Compute>(x));
  }
}

template <class T>
LoadLoop load_loop() {
  return simd::best<const std::byte*, double*, int64_t>(
      [](const std::byte* from, double* to, int64_t n) {
        const T* x = reinterpret_cast<const T*>(from);
        QTAPE_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) to[i] = static_cast<double>(Storage<T>::load(x[i]));
      });
}

template <class T, bool accumulate>
StoreLoop store_loop() {
  return simd::best<const double*, std::byte*, int64_t>(
      [](const double* from, std::byte* to, int64_t n) {
        T* y = reinterpret_cast<T*>(to);
        QTAPE_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) {
          const T value = from_double<T>(from[i]);
          if constexpr (accumulate) {
            y[i] = Storage<T>::store(Storage<T>::load(y[i]) + Storage<T>::load(value));
          } else {
            y[i] = value;
          }
        }
      });
}

/// Converts n elements through double, which represents every value of every dtype exactly.
Kernel bind_cast(DType from_dtype, const std::byte* from, StoreLoop store, DType to_dtype,
                 std::byte* to, int64_t n, int threads) {
  const LoadLoop load = dispatch_any(from_dtype, []<class T>() { return load_loop<T>(); });
  return [load, store, from, to, n, threads, from_size = size_of(from_dtype),
          to_size = size_of(to_dtype)](const Step&) {
    parallel_for(threads, n, 1024, pointwise_grain, [&](int64_t begin, int64_t end) {
      alignas(64) double values[cast_block];
      for (int64_t i = begin; i < end; i += cast_block) {
        const int64_t width = std::min(cast_block, end - i);
        load(from + i * from_size, values, width);
        store(values, to + i * to_size, width);
      }
    });
  };
}

}  // namespace

static_assert(Compute<Cast>);

Kernel Cast::forward(const Binding& b) const {
  const DType from = b.inputs[0].dtype;
  if (from == dtype) return view_forward(b);
  const StoreLoop store = dispatch_any(dtype, []<class T>() { return store_loop<T, false>(); });
  return bind_cast(from, b.operand<const std::byte>(0), store, dtype, b.result,
                   b.output.elements(), b.threads);
}

Kernel Cast::backward(const Binding& b) const {
  const DType to = b.inputs[0].dtype;
  if (!b.wanted(0) || !is_float(dtype) || !is_float(to)) return {};
  if (to == dtype) return view_backward(b);
  const StoreLoop store = dispatch_float(to, [&]<class T>() {
    return b.accumulate(0) ? store_loop<T, true>() : store_loop<T, false>();
  });
  return bind_cast(dtype, b.dy, store, to, b.dx<std::byte>(0), b.output.elements(), b.threads);
}

}  // namespace qtape
