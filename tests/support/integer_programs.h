// Integer programs under construction.
#pragma once

#include <string>
#include <vector>

#include "qtape/integer/program/integer_node.h"

namespace qtape::test {

/// Returns the grid with all codes of a dtype.
inline CodeGrid whole_grid(DType dtype, double scale, int32_t zero_point = 0) {
  switch (dtype) {
    case DType::U8:
      return {dtype, scale, zero_point, 0, 255};
    case DType::S16:
      return {dtype, scale, zero_point, -32768, 32767};
    case DType::U16:
      return {dtype, scale, zero_point, 0, 65535};
    default:
      return {DType::S8, scale, zero_point, -128, 127};
  }
}

/// Codes of weights, with scales and biases; without biases if there are none.
struct Weights {
  std::vector<int8_t> codes;
  std::vector<float> scales = {1};
  std::vector<int32_t> bias = {};
  int bits = 8;
};

struct ProgramBuilder {
  IntegerProgram program;

  explicit ProgramBuilder(Requantization requantization = Requantization::SingleRounding)
      : program(requantization) {}

  ProgramNodeId add(IntegerOp op, const std::vector<ProgramNodeId>& operands,
                    const std::string& label = "") {
    return program.add(std::move(op), operands, label);
  }
  /// Adds an input `x` and its codes.
  ProgramNodeId codes(const Shape& shape, const CodeGrid& grid,
                      const std::string& label = "q") {
    return add(integer::Quantize{grid}, {add(integer::Input{.shape = shape}, {}, "x")}, label);
  }
  /// Adds accumulators of `x`; the number of outputs is the number of rows of weights.
  ProgramNodeId linear(ProgramNodeId x, const Weights& w, const std::string& label = "") {
    const int64_t k = program[x].value.type.shape[-1];
    const Shape shape = {std::ssize(w.codes) / k, k};
    const IntegerValue& value = program[x].value;
    return add(integer::Linear{pack_weights(w.codes, shape, w.bits, w.scales, w.bias, value)},
               {x}, label);
  }
  /// Adds accumulators of a convolution; `op` lacks its weights, whose rows have `k` elements.
  ProgramNodeId conv(ProgramNodeId x, integer::Conv op, int64_t k, const Weights& w,
                     const std::string& label = "") {
    op.weights.shape = {std::ssize(w.codes) / k, k};
    const IntegerValue value = op.factors(program[x].value);
    op.weights = pack_weights(w.codes, op.weights.shape, w.bits, w.scales, w.bias, value);
    return add(op, {x}, label);
  }
  /// Returns the program, whose outputs are `outputs`.
  IntegerProgram of(const std::vector<ProgramNodeId>& outputs) {
    program.set_outputs(outputs);
    return std::move(program);
  }
};

/// `x` f32[2, 3], its codes `q`, their accumulators `fc` [2, 2] with weights {5, -3, 2; 7, 0,
/// -9}, and the floats `y` of the accumulators.
inline IntegerProgram small_program(
    Requantization requantization = Requantization::SingleRounding) {
  ProgramBuilder b(requantization);
  const ProgramNodeId q = b.codes({2, 3}, whole_grid(DType::U8, 0.25, 7));
  const ProgramNodeId fc = b.linear(q, {{5, -3, 2, 7, 0, -9}, {0.5f, 2.0f}, {100, -20}}, "fc");
  return b.of({b.add(integer::Dequantize{.low = 0}, {fc}, "y")});
}

/// Returns a program of the first `count` nodes, without outputs.
inline IntegerProgram first_nodes(const IntegerProgram& from, int32_t count) {
  IntegerProgram program(from.requantization());
  for (int32_t i = 0; i < count; ++i) {
    const IntegerNode& node = from[ProgramNodeId{i}];
    program.add(node.op, node.operands, node.label);
  }
  return program;
}

}  // namespace qtape::test
