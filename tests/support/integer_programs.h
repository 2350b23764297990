// Integer programs made by hand.
#pragma once

#include "qtape/integer/integer_program.h"

namespace qtape::test {

/// `x` f32[2, 3], its codes `q`, their accumulators `fc` [2, 2] with weights {5, -3, 2; 7, 0,
/// -9}, and the floats `y` of the accumulators.
inline IntegerProgram small_program() {
  IntegerProgram program(Requantization::SingleRounding);
  const CodeGrid grid{
      .dtype = DType::U8, .scale = 0.25, .zero_point = 7, .low = 0, .high = 255};
  const NodeId x = program.add(integer::Input{.shape = {2, 3}}, {}, "x");
  const NodeId q = program.add(integer::Quantize{grid}, {x}, "q");
  const std::vector<int8_t> weights = {5, -3, 2, 7, 0, -9};
  const std::vector<int32_t> bias = {100, -20};
  integer::Linear linear{.shape = {2, 3}};
  linear.weight = Tensor::of<uint8_t>({6}, std::vector<uint8_t>{5, 253, 2, 7, 0, 247});
  linear.scales = Tensor::of<float>({2}, std::vector<float>{0.5f, 2.0f});
  linear.bias = Tensor::of<int32_t>({2}, bias);
  linear.certificate = certify(weights, 2, 3, bias, program[q].value);
  const NodeId fc = program.add(linear, {q}, "fc");
  integer::Dequantize relu;
  relu.low = 0;
  const NodeId y = program.add(relu, {fc}, "y");
  program.set_outputs({y});
  return program;
}

}  // namespace qtape::test
