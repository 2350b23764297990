#include "qtape/ops/slice.h"

#include "qtape/ops/families/rows.h"

namespace qtape {
namespace {

/// Part of each row of x that a slice takes, in elements.
struct Cut {
  int64_t rows = 1;
  int64_t row = 0;     ///< elements in a row of x
  int64_t first = 0;   ///< start of the slice in a row of x
  int64_t width = 0;   ///< elements in a row of y
  int64_t extent = 0;  ///< extent of y along the axis
};

int64_t resolve_index(const char* name, int64_t index, int64_t extent, int axis) {
  check(index >= -extent && index <= extent, "{} must be in {}..{} along axis {}, got {}", name,
        -extent, extent, axis, index);
  return index < 0 ? index + extent : index;
}

Cut cut_of(const Slice& op, const Shape& shape) {
  const int axis = resolve_axis(op.axis, shape);
  const int64_t extent = shape[axis];
  const int64_t begin = resolve_index("begin", op.begin, extent, axis);
  const int64_t end = resolve_index("end", op.end.value_or(extent), extent, axis);
  check(begin <= end, "begin must not be after end along axis {} of {}, got {} and {}", axis,
        to_string(shape), begin, end);
  const AxisView x = axis_view(shape, axis);
  return {x.outer, extent * x.inner, begin * x.inner, (end - begin) * x.inner, end - begin};
}

}  // namespace

static_assert(Compute<Slice>);

TensorType Slice::infer(Inputs inputs) const {
  const Shape& x = inputs[0].shape;
  const Cut cut = cut_of(*this, x);
  const int along = resolve_axis(axis, x);
  return {inputs[0].dtype, x.with(along, cut.extent)};
}

Kernel Slice::forward(const Binding& b) const {
  const Cut cut = cut_of(*this, b.inputs[0].shape);
  return bind_copy_rows({cut.rows, cut.width, cut.row, cut.width}, size_of(b.output.dtype),
                        b.operand<const std::byte>(0) + cut.first * size_of(b.output.dtype),
                        b.result, b.threads);
}

Kernel Slice::backward(const Binding& b) const {
  if (!b.wanted(0) || !is_float(b.output.dtype)) return {};
  const Cut cut = cut_of(*this, b.inputs[0].shape);
  const int64_t size = size_of(b.output.dtype);
  if (b.accumulate(0)) {
    return bind_move_rows({cut.rows, cut.width, cut.width, cut.row}, b.output.dtype, b.dy,
                          b.dx<std::byte>(0) + cut.first * size, true, b.threads);
  }
  const int64_t after = cut.row - cut.first - cut.width;
  return bind_join_rows(
      {{nullptr, cut.first * size}, {b.dy, cut.width * size}, {nullptr, after * size}},
      cut.rows, b.dx<std::byte>(0), b.threads);
}

}  // namespace qtape
