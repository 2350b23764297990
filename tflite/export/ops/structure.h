// Ops that move codes as operators.
#pragma once

#include <vector>

#include "qtape/integer/ops/integer_ops.h"
#include "qtape/tflite/bounds.h"
#include "qtape/tflite/export/tflite_program.h"

namespace qtape::tflite {

inline std::vector<int32_t> reshape_of(const Shape& shape) {
  std::vector<int32_t> extents;
  for (const int64_t each : shape.extents()) extents.push_back(static_cast<int32_t>(each));
  return extents;
}

inline void write(const integer::Reshape&, TfliteProgram& p) {
  if (!p.in(0).is_codes()) return;
  p.finish(Builtin::Reshape, {p.tensor(0)}, ReshapeOptions{reshape_of(p.out().type.shape)});
}

inline void write(const integer::Pad& op, TfliteProgram& p) {
  const int rank = p.out().type.shape.rank();
  check(rank <= max_padded_axes, "TensorFlow Lite Micro pads up to {} axes, got {}",
        max_padded_axes, rank);
  check(op.code == p.out().zero_point, "the border is {}, expected the zero point {}", op.code,
        p.out().zero_point);
  std::vector<int32_t> pads;
  for (int axis = 0; axis < rank; ++axis) {
    pads.push_back(static_cast<int32_t>(op.begin[axis]));
    pads.push_back(static_cast<int32_t>(op.end[axis]));
  }
  const int32_t numbers = p.add_numbers(p.part("paddings"), pads, Shape{rank, 2});
  p.finish(Builtin::Pad, {p.tensor(0), numbers});
}

inline void write(const integer::Concat& op, TfliteProgram& p) {
  const auto count = std::ssize(p.node().operands);
  check(count <= max_joined, "TensorFlow Lite Micro joins up to {} operands, got {}",
        max_joined, count);
  std::vector<int32_t> inputs;
  for (size_t k = 0; k < p.node().operands.size(); ++k) inputs.push_back(p.tensor(k));
  p.finish(Builtin::Concatenation, std::move(inputs),
           ConcatenationOptions{.axis = resolve_axis(op.axis, p.out().type.shape)});
}

}  // namespace qtape::tflite
