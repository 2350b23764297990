// Values of a graph that do not depend on inputs.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "qtape/engine/graph.h"

namespace qtape {

/// By node: true if its value depends only on parameters, states and constants.
std::vector<bool> constant_nodes(const Graph& graph);
/// Extends `constant` by the nodes that were added to the graph after it was computed.
void extend_constant(const Graph& graph, std::vector<bool>& constant);

/// Below any difference of scores. The usual mask of -10,000 stays below it with a bias added
/// or rounded to bf16.
inline constexpr float far_score = -5000;
/// exp(-100) is about 4e-44, which changes no sum of exponentials in f32 that is 1 or more.
inline constexpr float negligible_score = -100;

/// Returns the bound at or below which a value of a mask of scores excludes its element;
/// nullopt if the values are not a mask. It is far_score if all other values are biases within
/// -1,000 and 1,000, or negligible_score if all others are 0 and all that exclude are equal.
std::optional<float> mask_bound(std::span<const float> values);

}  // namespace qtape
