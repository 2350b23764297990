// Queries of the integer rule of any op.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "qtape/integer/rules/rule.h"

namespace qtape {

/// True if the integers of a node are those of operand 0 in another shape.
bool is_view(const Op& op);
/// Returns the node itself, or the node that a chain of views starts from.
NodeId origin_of(const Graph& graph, NodeId id);
/// True if a node outputs a selection of the codes of operand 0, on the same grid.
bool keeps_codes(const Op& op);
/// True if a node of kind Codes adds values of its own, which it rounds to the grid.
bool rounds(const Op& op);
/// True if each operand of a pending node is requantized to the grid that follows.
bool joins(const Op& op);
/// True if `op` maps each element of operand 0 by itself.
bool is_pointwise(const Op& op);
/// Returns the limits of a pointwise op that only limits its operand; nothing for other ops.
std::optional<ValueLimits> limits_of(const Op& op);
/// Applies `op`, which must be elementwise with one or two operands, to `operands`. Throws
/// Error for other ops.
float map_value(const Op& op, std::span<const float> operands);
/// True if a node adds operand 1 to the accumulators of a product.
bool adds_bias(const Op& op);
/// Returns the numbers of a norm, other than gamma and beta, its operands 1 and 2; nothing for
/// other ops.
std::optional<integer::NormNumbers> norm_of(const Op& op);
/// Returns the index of the operand that holds indices of rows of operand 0, if there is one.
std::optional<size_t> indices_operand(const Op& op);
/// Returns the index of the operand that is constant weights, if there is one.
std::optional<size_t> weights_operand(const Op& op);
/// Returns the weights of node `id` if they depend on no input. `constant`: see constant_nodes.
std::optional<NodeId> constant_weights(const Graph& graph, const std::vector<bool>& constant,
                                       NodeId id);
/// Returns the layout of the weights in their operand. Throws Error for ops without weights.
WeightLayout weight_layout(const Op& op, const Shape& weights);
/// Returns the integer form of `op`.
Verdict classify(const Op& op, const Operands& operands);
/// Returns the integer op of a node of kind Codes, Accumulators, Pending or Indices, other than
/// an input. Throws Error for others.
IntegerOp emit(const Op& op, const Numbers& numbers);

}  // namespace qtape
