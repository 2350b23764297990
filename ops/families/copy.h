// Kernels of ops whose output is a bit-exact copy of an operand, for any dtype.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>

#include "qtape/core/half.h"
#include "qtape/kernels/simd/threads.h"
#include "qtape/ops/core/op.h"

namespace qtape {

using namespace kernels;

/// to = from for `bytes` bytes; no kernel if both are one buffer or `to` is null.
inline Kernel bind_copy(const std::byte* from, std::byte* to, int64_t bytes, int threads) {
  if (from == to || to == nullptr || bytes == 0) return {};
  return [from, to, bytes, threads](const Step&) {
    parallel_for(threads, bytes, 4096, copy_grain, [&](int64_t begin, int64_t end) {
      std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
    });
  };
}

template <class T>
using AddLoop = void (*)(const T* x, T* y, int64_t n);

/// Loop y += x over n elements, computed in float for f16 and bf16.
template <class T>
AddLoop<T> add_loop();

extern template AddLoop<float> add_loop();
extern template AddLoop<double> add_loop();
extern template AddLoop<Half> add_loop();
extern template AddLoop<BHalf> add_loop();

/// Most elements that `write_or_add` adds.
inline constexpr int64_t accumulated_block = 1024;

/// Calls `body(to)`, which writes n elements; with `add`, into a buffer that it adds to `to`:
/// loops that accumulate, which is rare, need not be compiled for each op.
template <class T, class Body>
void write_or_add(T* to, int64_t n, AddLoop<T> add, const Body& body) {
  if (add == nullptr) return body(to);
  std::array<T, accumulated_block> buffer;
  body(buffer.data());
  add(buffer.data(), to, n);
}

/// to += from, computed in float for f16 and bf16.
template <class T>
Kernel bind_add(const T* from, T* to, int64_t n, int threads) {
  if (n == 0) return {};
  return [from, to, n, threads, loop = add_loop<T>()](const Step&) {
    parallel_for(threads, n, 1024, pointwise_grain, [&](int64_t begin, int64_t end) {
      loop(from + begin, to + begin, end - begin);
    });
  };
}

/// Forward of a view: y = operand 0.
inline Kernel view_forward(const Binding& b) {
  return bind_copy(b.operand<const std::byte>(0), b.result, b.output.bytes(), b.threads);
}

/// Backward of a view: the gradient of operand 0 is dy.
inline Kernel view_backward(const Binding& b) {
  if (!b.wanted(0) || !is_float(b.output.dtype)) return {};
  if (!b.accumulate(0)) {
    return bind_copy(b.dy, b.dx<std::byte>(0), b.output.bytes(), b.threads);
  }
  return dispatch_float(b.output.dtype, [&]<class T>() {
    return bind_add(b.dy_as<const T>(), b.dx<T>(0), b.output.elements(), b.threads);
  });
}

}  // namespace qtape
