#include <fmt/format.h>

#include "qtape/integer/ops/structure_kernels.h"

namespace qtape::integer {
namespace {

/// Copies `count` rows of `width` elements between tensors with different row strides.
template <class Code>
void copy_rows(const Code* from, int64_t from_row, Code* to, int64_t to_row, int64_t count,
               int64_t width) {
  for (int64_t row = 0; row < count; ++row) {
    for (int64_t i = 0; i < width; ++i) to[row * to_row + i] = from[row * from_row + i];
  }
}

/// Returns a kernel that copies elements of any type.
IntegerKernel copy_all(const IntegerBinding& b) {
  return {.run = [x = b.operands[0], y = b.result, n = b.out().type.bytes()] {
    copy_rows(x, n, y, n, 1, n);
  }};
}

template <class Code>
IntegerKernel copy(const qtape::Slice& op, const IntegerBinding& b) {
  const Shape& shape = b.in(0).type.shape;
  const int axis = resolve_axis(op.axis, shape);
  const AxisView x = axis_view(shape, axis);
  const AxisView y = axis_view(b.out().type.shape, axis);
  const int64_t begin = op.begin < 0 ? op.begin + x.channels : op.begin;
  return {.run = [from = b.operand<Code>(0) + begin * x.inner, to = b.y<Code>(), x, y] {
    copy_rows(from, x.channels * x.inner, to, y.channels * y.inner, y.outer,
              y.channels * y.inner);
  }};
}

template <class Code>
IntegerKernel copy(const qtape::Concat& op, const IntegerBinding& b) {
  const int axis = resolve_axis(op.axis, b.out().type.shape);
  const AxisView whole = axis_view(b.out().type.shape, axis);
  std::vector<AxisView> parts;
  for (const IntegerValue* input : b.inputs) {
    parts.push_back(axis_view(input->type.shape, axis));
  }
  return {.run = [parts, operands = b.operands, to = b.y<Code>(), whole] {
    int64_t offset = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      const int64_t width = parts[i].channels * parts[i].inner;
      copy_rows(reinterpret_cast<const Code*>(operands[i]), width, to + offset,
                whole.channels * whole.inner, whole.outer, width);
      offset += width;
    }
  }};
}

}  // namespace

template <class Op>
IntegerKernel Structure<Op>::reference(const IntegerBinding& b) const {
  if constexpr (detail::takes_all<Op>) {
    return copy_all(b);
  } else {
    return dispatch_codes(b.out().type.dtype,
                          [&]<class Code>() { return copy<Code>(*this, b); });
  }
}

template struct Structure<qtape::Concat>;
template struct Structure<qtape::Slice>;
template struct Structure<qtape::Reshape>;
static_assert(IntegerCompute<Concat> && IntegerCompute<Slice> && IntegerCompute<Reshape>);

}  // namespace qtape::integer
