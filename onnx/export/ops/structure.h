// Inputs, moves and reductions of codes in ONNX.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "qtape/core/error.h"
#include "qtape/integer/ops/integer_ops.h"
#include "qtape/onnx/export/onnx_program.h"

namespace qtape {

/// A reduction of operand 0.
struct Reduction {
  Written x;                       ///< in the layout in which it is reduced
  std::vector<int64_t> axes = {};  ///< of that layout
  bool channels_first = false;     ///< of the result
};

namespace {

/// Returns the reduction in the layout in which the operand is written, if the layout of the
/// result is then known: if it has the axes of x, or the channels are its only axis after the
/// batch.
template <class Op>
Reduction reduction_of(OnnxProgram& p, const Op& op) {
  const Shape& x = p.in(0).type.shape;
  std::vector<int> axes;
  for (int axis : op.axes) axes.push_back(resolve_axis(axis, x));
  for (int axis = 0; op.axes.empty() && axis < x.rank(); ++axis) axes.push_back(axis);
  const bool channels = std::ranges::count(axes, x.rank() - 1) > 0;
  const auto positions =
      std::ranges::count_if(axes, [&](int axis) { return axis > 0 && axis < x.rank() - 1; });
  const bool as_written = op.keep_dims || channels || positions == x.rank() - 2;
  Reduction r{as_written ? p.written(0) : Written{p.channels_last(0)}};
  r.channels_first = r.x.channels_first && op.keep_dims;
  for (const int axis : axes) r.axes.push_back(as_written ? p.written_axis(0, axis) : axis);
  return r;
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
  const Reduction r = reduction_of(p, op);
  const std::string sum =
      reduced(p, "ReduceSum", p.dequantized(r.x.name, p.in(0)), r.axes, op.keep_dims, 13);
  if (!op.mean) return {sum, r.channels_first};
  // Multiplied by the program's own factor: a ReduceMean would divide, which changes ties.
  const double share = p.out().scales[0] / p.in(0).scales[0];
  return {
      p.to.apply("Mul",
                 {sum, p.to.scalar(p.named("share"), DType::F32, static_cast<float>(share))},
                 p.named("mean")),
      r.channels_first};
}

}  // namespace

inline Written write(const integer::Input&, OnnxProgram& p) {
  const std::string& name = p.names[p.current.index];
  p.to.input(name, p.out().type, p.batch_extent(p.current));
  return {name};
}

/// In the layout in which all operands are written.
inline Written write(const integer::Concat& op, OnnxProgram& p) {
  bool first = true;
  for (size_t i = 0; i < p.node().operands.size(); ++i) {
    first = first && p.written(i).channels_first;
  }
  std::vector<std::string> inputs;
  for (size_t i = 0; i < p.node().operands.size(); ++i) {
    inputs.push_back(first ? p.written(i).name : p.channels_last(i));
  }
  const int axis = resolve_axis(op.axis, p.out().type.shape);
  onnx::NodeProto& made = p.to.node("Concat", inputs, p.named("joined"));
  set_attribute(made, "axis", int64_t{first ? p.written_axis(0, axis) : axis});
  return {made.output(0), first};
}

/// In the layout in which x is written.
inline Written write(const integer::Slice& op, OnnxProgram& p) {
  const Shape& x = p.in(0).type.shape;
  const int axis = resolve_axis(op.axis, x);
  const int64_t begin = op.begin < 0 ? op.begin + x[axis] : op.begin;
  return {p.to.apply("Slice",
                     {p.written(0).name, p.to.numbers(p.named("begin"), {begin}),
                      p.to.numbers(p.named("end"), {begin + p.out().type.shape[axis]}),
                      p.to.numbers(p.named("axis"), {p.written_axis(0, axis)})},
                     p.named("slice")),
          p.written(0).channels_first};
}

/// In the layout in which x is written.
inline Written write(const integer::Gather& op, OnnxProgram& p) {
  const Written& x = p.written(0);
  onnx::NodeProto& made = p.to.node(
      "Gather", {x.name, p.to.numbers(p.named("places"), op.indices)}, p.named("gathered"));
  set_attribute(made, "axis",
                int64_t{p.written_axis(0, resolve_axis(op.axis, p.in(0).type.shape))});
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
    axes.push_back(p.written_axis(0, axis));
  }
  if (std::ranges::is_sorted(axes)) return {p.written(0).name};
  const bool to_last = rank == 3   ? axes == std::vector<int64_t>{0, 2, 1}
                       : rank == 4 ? axes == std::vector<int64_t>{0, 2, 3, 1}
                                   : false;
  if (to_last) return {p.written(0).name, true};
  return {p.transposed(p.written(0).name, axes)};
}

inline Written write(const integer::Reshape&, OnnxProgram& p) {
  // With one channel or one position both layouts have the same order of elements.
  const Shape& x = p.in(0).type.shape;
  const bool same = x.rank() >= 3 && (x[-1] == 1 || x.elements() == x[0] * x[-1]);
  const std::string from = same ? p.written(0).name : p.channels_last(0);
  return {p.to.apply("Reshape", {from, p.to.numbers(p.named("shape"), p.extents())},
                     p.named("reshaped"))};
}

inline Written write(const integer::Max& op, OnnxProgram& p) {
  const Reduction r = reduction_of(p, op);
  return {p.chosen(r.x.name,
                   [&](const std::string& x) {
                     return reduced(p, "ReduceMax", x, r.axes, op.keep_dims, 18);
                   }),
          r.channels_first};
}

inline Written write(const integer::Sum& op, OnnxProgram& p) {
  if (p.in_floats()) return sum_in_floats(p, op);
  check(p.out().type.dtype == DType::S32, "ONNX's sums have 32 bits");
  const Reduction r = reduction_of(p, op);
  return {reduced(p, "ReduceSum", p.differences(r.x.name, p.in(0)), r.axes, op.keep_dims, 13),
          r.channels_first};
}

/// Of codes in 8 bits as they are, which runtimes compare; of others by their values.
inline Written write(const integer::ArgMax& op, OnnxProgram& p) {
  const IntegerValue& x = p.in(0);
  const std::string last = p.channels_last(0);
  const bool codes = x.is_codes() && !OnnxProgram::is_wide(x.type.dtype);
  onnx::NodeProto& made =
      p.to.node("ArgMax", {codes ? last : p.values_of(0, last, false)}, p.named("index"));
  set_attribute(made, "axis", int64_t{resolve_axis(op.axis, x.type.shape)});
  set_attribute(made, "keepdims", int64_t{op.keep_dims});
  return {p.cast(made.output(0), DType::S32, "index32")};
}

inline Written write(const integer::Embedding&, OnnxProgram& p) {
  return {p.to.apply("Gather", {p.channels_last(0), p.channels_last(1)}, p.named("rows"))};
}

}  // namespace qtape
