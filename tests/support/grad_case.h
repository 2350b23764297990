// GradCase: one declaration drives value, gradient, accumulation and overrun checks of an op.
#pragma once

#include <string>
#include <vector>

#include "qtape/engine/tape.h"

namespace qtape::test {

/// One operand: uniform random values of `shape` in [low, high]; integers for s32. Where the
/// slot reads scales, a quantizer of them: of the whole tensor, or of each index of axis 0.
struct Operand {
  Shape shape;
  double low = -1;
  double high = 1;
  DType dtype = DType::F64;
  bool state = false;  ///< given as a State instead of a Parameter
};

struct GradCase {
  Op op;
  std::vector<Operand> operands;
  Mode mode = mode::float_train;
};

/// The table: at least one case for every differentiable op.
const std::vector<GradCase>& grad_cases();

/// Reports through doctest: f64 central differences with a random upstream vector,
/// accumulation, operands without gradient, guards around every buffer, memory sharing on and
/// off.
void check_grad_case(const GradCase& grad_case);

}  // namespace qtape::test
