#include <fmt/format.h>

#include "qtape/integer/c/c_source.h"
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

/// Writes C code that copies `count` rows of `width` elements, see copy_rows.
void write_rows(CNode& node, const std::string& from, int64_t from_row, const std::string& to,
                int64_t to_row, int64_t count, int64_t width) {
  const int64_t size = size_of(node.out().type.dtype);
  node.call(node.source.kernel("copy_rows", ""), from, from_row * size, to, to_row * size,
            count, width * size);
}

void write_copy(CNode& node, const qtape::Reshape&) {
  if (node.operands[0] == node.result) return;
  const int64_t n = node.out().type.elements();
  write_rows(node, node.operands[0], n, node.result, n, 1, n);
}

void write_copy(CNode& node, const qtape::Slice& op) {
  const Shape& shape = node.in(0).type.shape;
  const int axis = resolve_axis(op.axis, shape);
  const AxisView x = axis_view(shape, axis);
  const AxisView y = axis_view(node.out().type.shape, axis);
  const int64_t begin = op.begin < 0 ? op.begin + x.channels : op.begin;
  write_rows(node, fmt::format("{} + {}", node.operands[0], begin * x.inner),
             x.channels * x.inner, node.result, y.channels * y.inner, y.outer,
             y.channels * y.inner);
}

void write_copy(CNode& node, const qtape::Concat& op) {
  const int axis = resolve_axis(op.axis, node.out().type.shape);
  const AxisView whole = axis_view(node.out().type.shape, axis);
  int64_t offset = 0;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const AxisView part = axis_view(node.in(i).type.shape, axis);
    const int64_t width = part.channels * part.inner;
    write_rows(node, node.operands[i], width, fmt::format("{} + {}", node.result, offset),
               whole.channels * whole.inner, whole.outer, width);
    offset += width;
  }
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

template <class Op>
void Structure<Op>::write_c(CNode& node) const {
  write_copy(node, *this);
}

template struct Structure<qtape::Concat>;
template struct Structure<qtape::Slice>;
template struct Structure<qtape::Reshape>;
static_assert(IntegerCompute<Concat> && IntegerCompute<Slice> && IntegerCompute<Reshape>);

}  // namespace qtape::integer
