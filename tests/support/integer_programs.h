// Manually built integer programs.
#pragma once

#include "qtape/integer/program/integer_program.h"

namespace qtape::test {

/// `x` f32[2, 3], its codes `q`, their accumulators `fc` [2, 2] with weights {5, -3, 2; 7, 0,
/// -9}, and the floats `y` of the accumulators.
inline IntegerProgram small_program() {
  IntegerProgram program(Requantization::SingleRounding);
  const CodeGrid grid{
      .dtype = DType::U8, .scale = 0.25, .zero_point = 7, .low = 0, .high = 255};
  const ProgramNodeId x = program.add(integer::Input{.shape = {2, 3}}, {}, "x");
  const ProgramNodeId q = program.add(integer::Quantize{grid}, {x}, "q");
  const std::vector<int8_t> weights = {5, -3, 2, 7, 0, -9};
  const std::vector<int32_t> bias = {100, -20};
  const std::vector<float> scales = {0.5f, 2.0f};
  const integer::Linear linear{
      .weights = pack_weights(weights, {2, 3}, 8, scales, bias, program[q].value)};
  const ProgramNodeId fc = program.add(linear, {q}, "fc");
  integer::Dequantize relu;
  relu.low = 0;
  const ProgramNodeId y = program.add(relu, {fc}, "y");
  program.set_outputs({y});
  return program;
}

}  // namespace qtape::test
