#include "qtape/ops/families/pool.h"

#include "qtape/ops/core/op.h"

namespace qtape {
namespace {

/// The number of attribute `name` for spatial axis `i`; `none` if the attribute is empty.
int64_t number_of(std::string_view name, const Shape& numbers, int axes, int i, int64_t none) {
  check(numbers.rank() == axes || numbers.rank() == 0,
        "{} must have {} numbers, one for each spatial axis, or none, got {}", name, axes,
        to_string(numbers));
  return numbers.rank() == 0 ? none : numbers[i];
}

/// A window that contains only padding has no value.
void check_real(std::string_view axis, const WindowAxis& w) {
  check(w.kernel == 1 || w.dilation <= w.in,
        "dilation must be at most the extent along {}, got {} and {}", axis, w.dilation, w.in);
  check(w.begin < w.span() && w.start(w.out - 1) < w.in,
        "a window lies entirely in the padding along {}: extent {}, kernel {}, stride {}, "
        "dilation {}, padding {} and {}",
        axis, w.in, w.kernel, w.stride, w.dilation, w.begin, w.end);
}

WindowAxis axis_of(std::string_view axis, const Shape& x, int i, const PoolAttributes& a) {
  const int axes = x.rank() - 2;
  const WindowAxis w =
      window_axis(axis, x[1 + i],
                  {.kernel = a.kernel[i],
                   .stride = number_of("stride", a.stride, axes, i, a.kernel[i]),
                   .dilation = number_of("dilation", a.dilation, axes, i, 1),
                   .padding = a.padding,
                   .pad_begin = number_of("pads_begin", a.pads_begin, axes, i, 0),
                   .pad_end = number_of("pads_end", a.pads_end, axes, i, 0)});
  check_real(axis, w);
  return w;
}

}  // namespace

Pool pool_of(const Shape& x, const PoolAttributes& attributes) {
  check(x.rank() == 3 || x.rank() == 4, "x must be [n, h, w, c] or [n, l, c], got {}",
        to_string(x));
  check(attributes.kernel.rank() == x.rank() - 2,
        "kernel must have {} numbers, one for each spatial axis, got {}", x.rank() - 2,
        to_string(attributes.kernel));
  check(attributes.kernel.elements() < int64_t{1} << 31,
        "windows may have at most 2^31 - 1 elements, kernel is {}",
        to_string(attributes.kernel));
  Pool pool{.images = x[0], .channels = x[-1], .window = {}, .result = x};
  if (x.rank() == 3) {
    pool.window.w = axis_of("l", x, 0, attributes);
    pool.result = x.with(1, pool.window.w.out);
    return pool;
  }
  pool.window = {axis_of("h", x, 0, attributes), axis_of("w", x, 1, attributes)};
  pool.result = Shape{x[0], pool.window.h.out, pool.window.w.out, x[3]};
  return pool;
}

void check_compute_or_codes(const TensorType& type) {
  const DType d = type.dtype;
  check(is_compute(d) || is_code_dtype(d), "expected f32, f64, s8, u8, s16 or u16, got {}",
        to_string_view(d));
}

}  // namespace qtape
