// What an op promises, asked before anything runs.
#pragma once

#include <span>
#include <string>

#include "qtape/ops/ops.h"

namespace qtape {

struct OpContract {
  TensorType output;
  Footprint footprint;  ///< bytes beside operands and output
  Guarantee guarantee;
};

/// The contract of `op` on operands of these types, in slot order. Throws GraphError when they
/// do not fit: another number of them, or what the op's `infer` refuses.
OpContract contract(const Op& op, std::span<const TensorType> operands);

}  // namespace qtape
