// How codes pass through the ops of a graph.
#pragma once

#include <optional>

#include "qtape/engine/graph.h"

namespace qtape {

/// The quantizer on whose codes the values of `id` lie: `id` itself, or what views and ops that
/// keep codes lead back to.
std::optional<NodeId> quantizer_behind(const Graph& graph, NodeId id);

/// Whether the accumulators of `product` of x and w lie on one grid per output channel: the
/// quantizer behind x has one scale, and w is one with one scale or one for each output
/// channel.
bool accumulators_have_grid(const Graph& graph, const Op& product, NodeId x, NodeId w);

}  // namespace qtape
