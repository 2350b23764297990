// Integer ops that move and reduce codes in C99.
#pragma once

#include <fmt/format.h>

#include "qtape/c99/c_axes.h"
#include "qtape/c99/c_source.h"
#include "qtape/integer/ops/integer_ops.h"
#include "qtape/ops/families/reduction.h"

namespace qtape {
namespace {

/// Copies `count` rows of `width` elements in C, see copy_rows.
void write_rows(CNode& node, const std::string& from, int64_t from_row, const std::string& to,
                int64_t to_row, int64_t count, int64_t width) {
  const int64_t size = size_of(node.out().type.dtype);
  node.call(node.source.kernel("copy_rows", ""), from, from_row * size, to, to_row * size,
            count, width * size);
}

}  // namespace

inline void write(const integer::Input&, CNode&) {}

inline void write(const integer::Reshape&, CNode& node) {
  if (node.operands[0] == node.result) return;
  const int64_t n = node.out().type.elements();
  write_rows(node, node.operands[0], n, node.result, n, 1, n);
}

inline void write(const integer::Slice& op, CNode& node) {
  const Shape& shape = node.in(0).type.shape;
  const int axis = resolve_axis(op.axis, shape);
  const AxisView x = axis_view(shape, axis);
  const AxisView y = axis_view(node.out().type.shape, axis);
  const int64_t begin = op.begin < 0 ? op.begin + x.channels : op.begin;
  write_rows(node, fmt::format("{} + {}", node.operands[0], begin * x.inner),
             x.channels * x.inner, node.result, y.channels * y.inner, y.outer,
             y.channels * y.inner);
}

/// By begin and step where the indices are at equal distances, else by a table.
inline void write(const integer::Gather& op, CNode& node) {
  const Shape& shape = node.in(0).type.shape;
  if (node.out().type.elements() == 0) return;
  const AxisView x = axis_view(shape, resolve_axis(op.axis, shape));
  const int64_t bytes = x.inner * size_of(node.out().type.dtype);
  const std::vector<int64_t>& all = op.indices;
  const int64_t count = std::ssize(all);
  const int64_t step = count > 1 ? all[1] - all[0] : 1;
  bool equal = true;
  for (size_t i = 1; i < all.size(); ++i) equal = equal && all[i] - all[i - 1] == step;
  if (equal) {
    return node.call(node.source.kernel("step_rows", ""), node.operands[0], x.channels * bytes,
                     node.result, x.outer, bytes, all[0], step, count);
  }
  const auto call = [&]<class P>(std::string_view type) {
    std::vector<P> places;
    for (const int64_t each : all) places.push_back(static_cast<P>(each));
    const std::string table =
        node.source.array<P>(node.name, "places", std::span<const P>(places));
    node.call(node.source.kernel("take_rows", type, {{"P", std::string(type)}}),
              node.operands[0], x.channels * bytes, node.result, x.outer, bytes, table, count);
  };
  if (x.channels <= 256) return call.template operator()<uint8_t>("uint8_t");
  if (x.channels <= 65536) return call.template operator()<uint16_t>("uint16_t");
  call.template operator()<int32_t>("int32_t");
}

/// Reads x by the strides of its axes, in the order of y.
inline void write(const integer::Transpose& op, CNode& node) {
  const Shape& x = node.in(0).type.shape;
  const int64_t n = x.elements();
  if (n == 0) return;
  const std::vector<int64_t> strides = row_major_strides(x);
  std::vector<CAxis> axes;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const int from = op.permutation.empty()
                         ? x.rank() - 1 - axis
                         : resolve_axis(op.permutation[static_cast<size_t>(axis)], x);
    axes.push_back({x[from], strides[static_cast<size_t>(from)]});
  }
  axes = joined(axes);
  if (axes.size() <= 1) return write_rows(node, node.operands[0], n, node.result, n, 1, n);
  const std::string walk = write_axes(node, axes);
  const std::string code(c_type(node.out().type.dtype));
  node.call(node.source.kernel("transpose", code, {{"X", code}}), node.operands[0], node.result,
            n, walk, std::ssize(axes));
}

inline void write(const integer::Concat& op, CNode& node) {
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

namespace {

/// How y moves along the axes of x.
std::vector<CAxis> axes_towards(const Shape& x, std::span<const int> reduced) {
  const Shape y = reduced_shape(x, reduced);
  const std::vector<int64_t> strides = row_major_strides(y);
  std::vector<CAxis> axes;
  for (int axis = 0; axis < x.rank(); ++axis) {
    axes.push_back({x[axis], y[axis] > 1 ? strides[static_cast<size_t>(axis)] : 0});
  }
  return joined(axes);
}

}  // namespace

inline void write(const integer::Max& op, CNode& node) {
  const Shape& x = node.in(0).type.shape;
  const std::vector<CAxis> towards = axes_towards(x, op.axes);
  const std::string walk = write_axes(node, towards);
  const std::string code(c_type(node.in(0).type.dtype));
  const int64_t least = dispatch_codes(node.in(0).type.dtype, []<class X>() {
    return int64_t{std::numeric_limits<X>::lowest()};
  });
  node.call(
      node.source.kernel("max_axes", code, {{"X", code}, {"LEAST", fmt::format("{}", least)}}),
      node.operands[0], node.result, x.elements(), node.out().type.elements(), walk,
      std::ssize(towards));
}

inline void write(const integer::Sum& op, CNode& node) {
  const IntegerValue& x = node.in(0);
  const std::vector<CAxis> towards = axes_towards(x.type.shape, op.axes);
  const std::string walk = write_axes(node, towards);
  const std::string code(c_type(x.type.dtype));
  const std::string sum(c_type(node.out().type.dtype));
  node.call(node.source.kernel("sum_axes", fmt::format("{}_{}", code, sum),
                               {{"X", code}, {"ACC", sum}}),
            node.operands[0], node.result, x.type.elements(), node.out().type.elements(),
            x.zero_point, walk, std::ssize(towards));
}

inline void write(const integer::ArgMax& op, CNode& node) {
  const IntegerValue& x = node.in(0);
  const AxisView view = axis_view(x.type.shape, resolve_axis(op.axis, x.type.shape));
  const std::string type(c_type(x.type.dtype));
  if (x.is_codes()) {
    return node.call(node.source.kernel("arg_max", type, {{"X", type}}), node.operands[0],
                     node.result, view.outer, view.channels, view.inner);
  }
  const std::vector<float> scales(x.scales.begin(), x.scales.end());
  node.call(node.source.kernel("arg_max_sums", type, {{"X", type}}), node.operands[0],
            node.result, view.outer, view.channels, view.inner,
            node.source.array<float>(node.name, "scales", scales), std::ssize(scales));
}

inline void write(const integer::Embedding&, CNode& node) {
  const Shape& table = node.in(0).type.shape;
  const int64_t bytes = table[1] * size_of(node.out().type.dtype);
  node.call_checked("INDEX", node.source.kernel("embedding", ""), node.operands[0],
                    node.operands[1], node.result, node.in(1).type.elements(), table[0], bytes);
}

}  // namespace qtape
