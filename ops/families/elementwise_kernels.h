// Loops of elementwise ops. Included only by the .cpp files of these ops.
#pragma once

#include "qtape/core/math.h"
#include "qtape/kernels/simd/threads.h"
#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"
#include "qtape/ops/families/copy.h"
#include "qtape/ops/families/elementwise.h"

namespace qtape {

using namespace kernels;
namespace elementwise {

/// dx = dy * slope; `v` is the kept operand or output, or dy if nothing is kept. Of piecewise
/// ops dx is 0 where the slope is 0, also for an infinite dy.
template <class Op, class T>
auto slope_loop() {
  return simd::best_for<T, const Op*, const T*, const T*, T*, int64_t>(
      [](const Op* op, const T* v, const T* dy, T* dx, int64_t n) {
        const Op f = *op;
        QTAPE_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) {
          const T slope = static_cast<T>(f.slope(v[i]));
          dx[i] = dy[i] * slope;
          if constexpr (Piecewise<Op>) {
            const bool flat = (slope == T(0)) & (dx[i] != dx[i]);
            dx[i] = flat ? T(0) : dx[i];
          }
        }
      });
}

inline TensorType infer(Inputs inputs) {
  check_compute(inputs[0]);
  return inputs[0];
}

/// Throws GraphError if a finite attribute is not finite in the dtype of y.
inline void check_held(const TensorType& y, std::string_view name, double value) {
  check(y.dtype == DType::F64 || std::isfinite(static_cast<float>(value)),
        "{} is {}, which does not fit into f32", name, value);
}

/// y = op.value(x).
template <class Op>
Kernel forward(const Op& op, const Binding& b) {
  return dispatch_compute(b.output.dtype, [&]<class T>() -> Kernel {
    const auto loop = simd::best_for<T, const Op*, const T*, T*, int64_t>(
        [](const Op* function, const T* x, T* y, int64_t n) {
          const Op f = *function;
          QTAPE_INDEPENDENT
          for (int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(f.value(x[i]));
        });
    return [op, loop, x = b.operand<const T>(0), y = b.y<T>(), n = b.output.elements(),
            threads = b.threads](const Step&) {
      parallel_for(threads, n, 1024, pointwise_grain, [&](int64_t begin, int64_t end) {
        loop(&op, x + begin, y + begin, end - begin);
      });
    };
  });
}

/// dx (+)= dy op.slope(v).
template <class Op>
Kernel backward(const Op& op, const Binding& b) {
  if (!b.wanted(0)) return {};
  return dispatch_compute(b.output.dtype, [&]<class T>() -> Kernel {
    const T* v = Op::slope_of == SlopeOf::Operand  ? b.operand<const T>(0)
                 : Op::slope_of == SlopeOf::Output ? b.y<const T>()
                                                   : b.dy_as<const T>();
    return [op, loop = slope_loop<Op, T>(), v, dy = b.dy_as<const T>(), dx = b.dx<T>(0),
            n = b.output.elements(), add = b.accumulate(0) ? add_loop<T>() : nullptr,
            threads = b.threads](const Step&) {
      parallel_for(threads, n, 1024, pointwise_grain, [&](int64_t begin, int64_t end) {
        const int64_t block = add != nullptr ? accumulated_block : end - begin;
        for (int64_t i = begin; i < end; i += block) {
          const int64_t count = std::min(block, end - i);
          write_or_add(dx + i, count, add, [&](T* to) { loop(&op, v + i, dy + i, to, count); });
        }
      });
    };
  });
}

}  // namespace elementwise

template <class Op>
TensorType Elementwise<Op>::infer(Inputs inputs) const {
  return elementwise::infer(inputs);
}
template <class Op>
Kernel Elementwise<Op>::forward(const Binding& binding) const {
  return elementwise::forward(op(), binding);
}
template <class Op>
Kernel Elementwise<Op>::backward(const Binding& binding) const {
  return elementwise::backward(op(), binding);
}

}  // namespace qtape
