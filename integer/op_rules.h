// What is asked of the rule of an op, whichever op it is.
#pragma once

#include <optional>

#include "qtape/integer/rules/rule.h"

namespace qtape {

/// Whether the integers of a node are those of operand 0 under another shape.
bool is_view(const Op& op);
/// Whether a node gives some codes of operand 0, on its grid.
bool keeps_codes(const Op& op);
/// Whether a node with Codes has values beside them, which it rounds to their grid.
bool rounds(const Op& op);
/// Whether operands of a pending node get the grid that follows, each for itself.
bool joins(const Op& op);
/// Whether a node is a function of the codes of operand 0.
bool maps(const Op& op);
/// What `op`, one that maps each element by itself, makes of x. Throws Error for other ops.
float map_value(const Op& op, float x);
/// Whether a node adds operand 1 to the accumulators of a product.
bool adds_bias(const Op& op);
/// Which operand of a node is constant weights, if one is.
std::optional<size_t> weights_operand(const Op& op);
/// How these lie in their operand. Throws Error for other nodes.
WeightLayout weight_layout(const Op& op, const Shape& weights);
/// What `op` is in integers.
Verdict classify(const Op& op, const Operands& operands);
/// The integer op of a node with Codes, Accumulators or Pending. Throws Error for others.
IntegerOp emit(const Op& op, const Numbers& numbers);

}  // namespace qtape
