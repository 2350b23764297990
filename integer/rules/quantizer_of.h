// Finds the quantizer whose codes reach a node through views and ops that keep codes.
#pragma once

#include <optional>
#include <string>

#include "qtape/engine/graph.h"

namespace qtape {

/// Returns the quantizer that produced the codes of `id`: `id` itself, or the node reached from
/// it through views and ops that keep codes. Returns nullopt if that node is not a quantizer.
std::optional<NodeId> preceding_quantizer(const Graph& graph, NodeId id);

/// True if the accumulators of `product` of x and w have one scale per output channel. This
/// requires that the quantizer preceding x has a single scale, and that w is a quantizer with
/// one scale or one scale per output channel.
bool accumulators_have_grid(const Graph& graph, const Op& product, NodeId x, NodeId w);

/// Adds a FakeQuantizeBias named `label` that rounds `bias` to the grid of the accumulators of
/// the node `product`, and returns it. Returns `bias` if they have no grid.
NodeId add_rounded_bias(Graph& graph, NodeId product, NodeId bias,
                        const std::string& label = "");

}  // namespace qtape
