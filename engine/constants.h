// Values of a graph that do not depend on inputs.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "qtape/engine/graph.h"

namespace qtape {

/// By node: true if its value depends only on parameters, states and constants.
std::vector<bool> constant_nodes(const Graph& graph);
/// Appends the nodes that were added to the graph since.
void extend_constant(const Graph& graph, std::vector<bool>& constant);

/// Beyond any difference of scores; -10,000 with a bias, or in bf16, is less.
inline constexpr float far_score = -5000;
/// exp(-100) is the least positive number of f32.
inline constexpr float negligible_score = -100;

/// Returns the upper bound of the values that leave out their elements in a mask that is added
/// to scores; nullopt for values that are no mask. It is far_score if all others are biases
/// within -1,000 and 1,000, or negligible_score if all others are 0 and those that leave out
/// are equal.
std::optional<float> mask_bound(std::span<const float> values);

}  // namespace qtape
