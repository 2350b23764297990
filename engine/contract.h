// The contract of an op for given operand types, available before anything runs.
#pragma once

#include <span>

#include "qtape/ops/ops.h"

namespace qtape {

struct OpContract {
  TensorType output;
  Footprint footprint;  ///< bytes besides operands and output
  Guarantee guarantee;
};

/// Contract of `op` for operands of these types, in slot order. Throws GraphError if their
/// number is wrong or the op's `infer` rejects them.
OpContract contract(const Op& op, std::span<const TensorType> operands);

}  // namespace qtape
