// Inputs, moves and reductions of codes in ONNX.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "qtape/core/error.h"
#include "qtape/integer/ops/integer_ops.h"
#include "qtape/onnx/export/onnx_program.h"

namespace qtape {
namespace {

/// Returns the axes of a reduction of operand 0, counted from the front.
std::vector<int64_t> axes_of(OnnxProgram& p, const std::vector<int>& axes) {
  const Shape& x = p.in(0).type.shape;
  std::vector<int64_t> all;
  for (int axis : axes) all.push_back(resolve_axis(axis, x));
  for (int axis = 0; axes.empty() && axis < x.rank(); ++axis) all.push_back(axis);
  return all;
}

/// Adds a reduction. Its axes are an input since opset `since`, an attribute before.
std::string reduced(OnnxProgram& p, std::string_view op, const std::string& x,
                    const std::vector<int64_t>& axes, bool keep_dims, int64_t since) {
  std::vector<std::string> inputs = {x};
  if (p.opset >= since) inputs.push_back(p.to.numbers(p.named("axes"), axes));
  onnx::NodeProto& made = p.to.node(op, inputs, p.named("reduced"));
  if (p.opset < since) set_attribute(made, "axes", axes);
  set_attribute(made, "keepdims", int64_t{keep_dims});
  return made.output(0);
}

Written sum_in_floats(OnnxProgram& p, const integer::Sum& op) {
  const std::string x = p.dequantized(p.channels_last(0), p.in(0));
  const std::string sum = reduced(p, "ReduceSum", x, axes_of(p, op.axes), op.keep_dims, 13);
  if (!op.mean) return {sum};
  // Multiplied by the program's own factor: a ReduceMean would divide, which changes ties.
  const double share = p.out().scales[0] / p.in(0).scales[0];
  return {p.to.apply(
      "Mul", {sum, p.to.scalar(p.named("share"), DType::F32, static_cast<float>(share))},
      p.named("mean"))};
}

}  // namespace

inline Written write(const integer::Input&, OnnxProgram& p) {
  const std::string& name = p.names[p.current.index];
  p.to.input(name, p.out().type, p.is_batched(p.out().type));
  return {name};
}

inline Written write(const integer::Concat& op, OnnxProgram& p) {
  std::vector<std::string> inputs;
  for (size_t i = 0; i < p.node().operands.size(); ++i) inputs.push_back(p.channels_last(i));
  onnx::NodeProto& made = p.to.node("Concat", inputs, p.named("joined"));
  set_attribute(made, "axis", int64_t{resolve_axis(op.axis, p.out().type.shape)});
  return {made.output(0)};
}

inline Written write(const integer::Slice& op, OnnxProgram& p) {
  const Shape& x = p.in(0).type.shape;
  const int axis = resolve_axis(op.axis, x);
  const int64_t begin = op.begin < 0 ? op.begin + x[axis] : op.begin;
  return {p.to.apply("Slice",
                     {p.channels_last(0), p.to.numbers(p.named("begin"), {begin}),
                      p.to.numbers(p.named("end"), {begin + p.out().type.shape[axis]}),
                      p.to.numbers(p.named("axis"), {axis})},
                     p.named("slice"))};
}

/// In the layout in which x is written.
inline Written write(const integer::Gather& op, OnnxProgram& p) {
  const Written& x = p.written(0);
  const int rank = p.in(0).type.shape.rank();
  const int axis = resolve_axis(op.axis, p.in(0).type.shape);
  const int first = axis == 0 ? 0 : axis == rank - 1 ? 1 : axis + 1;
  onnx::NodeProto& made = p.to.node(
      "Gather", {x.name, p.to.numbers(p.named("places"), op.indices)}, p.named("gathered"));
  set_attribute(made, "axis", int64_t{x.channels_first ? first : axis});
  return {made.output(0), x.channels_first};
}

/// Reads x as it is written: a Transpose to channels last is joined with its own. From channels
/// first to last no node is needed, only the note that they are first.
inline Written write(const integer::Transpose& op, OnnxProgram& p) {
  const int rank = p.out().type.shape.rank();
  std::vector<int64_t> axes;
  for (int k = 0; k < rank; ++k) {
    const int axis =
        op.permutation.empty()
            ? rank - 1 - k
            : resolve_axis(op.permutation[static_cast<size_t>(k)], p.in(0).type.shape);
    const int first = axis == 0 ? 0 : axis == rank - 1 ? 1 : axis + 1;
    axes.push_back(p.written(0).channels_first ? first : axis);
  }
  if (std::ranges::is_sorted(axes)) return {p.written(0).name};
  const bool to_last = rank == 3   ? axes == std::vector<int64_t>{0, 2, 1}
                       : rank == 4 ? axes == std::vector<int64_t>{0, 2, 3, 1}
                                   : false;
  if (to_last) return {p.written(0).name, true};
  return {p.transposed(p.written(0).name, axes)};
}

inline Written write(const integer::Reshape&, OnnxProgram& p) {
  const auto extents = p.out().type.shape.extents();
  std::vector<int64_t> shape(extents.begin(), extents.end());
  if (p.is_batched(p.in(0).type) && p.is_batched(p.out().type)) shape[0] = -1;
  return {p.to.apply("Reshape", {p.channels_last(0), p.to.numbers(p.named("shape"), shape)},
                     p.named("reshaped"))};
}

inline Written write(const integer::Max& op, OnnxProgram& p) {
  return {p.chosen(p.channels_last(0), [&](const std::string& x) {
    return reduced(p, "ReduceMax", x, axes_of(p, op.axes), op.keep_dims, 18);
  })};
}

inline Written write(const integer::Sum& op, OnnxProgram& p) {
  if (p.in_floats) return sum_in_floats(p, op);
  check(p.out().type.dtype == DType::S32, "ONNX's sums have 32 bits");
  return {reduced(p, "ReduceSum", p.differences(p.channels_last(0), p.in(0)),
                  axes_of(p, op.axes), op.keep_dims, 13)};
}

}  // namespace qtape
