#include "qtape/ops/pad.h"

#include <cmath>
#include <limits>

#include "qtape/ops/families/border.h"
#include "qtape/ops/families/copy.h"

namespace qtape {

static_assert(Compute<Pad>);

TensorType Pad::infer(Inputs inputs) const {
  check_compute(inputs[0]);
  check(std::fabs(value) <= double{std::numeric_limits<float>::max()},
        "value must be a finite f32, got {}", value);
  return {inputs[0].dtype, padded_shape(inputs[0].shape, begin, end)};
}

Kernel Pad::forward(const Binding& b) const {
  if (b.output.elements() == 0) return {};
  const Border border(b.inputs[0].shape, begin, b.output.shape);
  return dispatch_compute(b.output.dtype, [&]<class T>() -> Kernel {
    const int64_t grain = std::max<int64_t>(1, pointwise_grain / border.y_width());
    return [border, grain, x = b.operand<const T>(0), to = b.y<T>(),
            with = static_cast<T>(value), threads = b.threads](const Step&) {
      parallel_for(threads, border.y_rows(), 1, grain,
                   [&](int64_t first, int64_t last) { border.fill(x, with, to, first, last); });
    };
  });
}

Kernel Pad::backward(const Binding& b) const {
  if (!b.wanted(0) || b.inputs[0].elements() == 0) return {};
  const Border border(b.inputs[0].shape, begin, b.output.shape);
  return dispatch_compute(b.output.dtype, [&]<class T>() -> Kernel {
    const int64_t grain = std::max<int64_t>(1, pointwise_grain / border.x_width());
    return [border, grain, loop = add_loop<T>(), accumulate = b.accumulate(0),
            dy = b.dy_as<const T>(), dx = b.dx<T>(0), threads = b.threads](const Step&) {
      parallel_for(threads, border.x_rows(), 1, grain, [&](int64_t first, int64_t last) {
        const int64_t n = border.x_width();
        for (int64_t r = first; r < last; ++r) {
          const T* from = dy + border.y_row(r) * border.y_width() + border.before();
          if (accumulate) {
            loop(from, dx + r * n, n);
          } else {
            std::copy_n(from, n, dx + r * n);
          }
        }
      });
    };
  });
}

}  // namespace qtape
