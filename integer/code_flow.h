// How codes pass through the ops of a graph.
#pragma once

#include <optional>

#include "qtape/engine/graph.h"

namespace qtape {

/// Whether `op` shows the values of its operand under another shape, or as they are: Reshape,
/// Flatten, StopGradient and, but for its scaling in training, Dropout.
bool is_view(const Op& op);
/// Whether `op` gives some codes of its operand, on the same grid: Slice, Max and Relu.
bool keeps_codes(const Op& op);
/// The quantizer on whose codes the values of `id` lie: `id` itself, or what views and ops that
/// keep codes lead back to.
std::optional<NodeId> quantizer_behind(const Graph& graph, NodeId id);

/// Whether the accumulators of x times the matrix w lie on one grid per output channel, which
/// are the indices of `axis` of w: the quantizer behind x has one scale, and w is one with one
/// scale or one for each output channel.
bool accumulators_have_grid(const Graph& graph, NodeId x, NodeId w, int axis);

}  // namespace qtape
