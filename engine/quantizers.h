// Quantizers of a graph, as their users handle them: added, found, and their scales set and
// read.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/engine/graph.h"
#include "qtape/engine/parameters.h"
#include "qtape/ops/quantizer_ops.h"

namespace qtape {

/// The quantizer nodes of a graph, in order.
std::vector<NodeId> quantizers(const Graph& graph);
/// The grid of the quantizer at `id`. Throws GraphError for other nodes.
Grid grid_of(const Graph& graph, NodeId id);
/// From elements to scales of the quantizer at `id`. Throws GraphError for other nodes.
ChannelMap channel_map(const Graph& graph, NodeId id);

/// Adds `quantizer`, any op that is one, after `x` as the node `<label>.quantized`, with the
/// states and parameters that it needs, called by `label` and their slots: `fc1.input.scale`.
/// Throws GraphError.
NodeId add_quantizer(Graph& graph, NodeId x, const Op& quantizer, const std::string& label);

/// Sets the scales, and where the quantizer is affine the zero points, of the node `id`: one
/// per channel, in channel order. What the node tracks instead (a range, a clipping value) is
/// set to what gives them, to within a unit in the last place; a scale below the floor acts as
/// the floor. Throws GraphError, having changed nothing, unless every scale is a
/// positive normal number of the states' dtype and every zero point is one of the codes; and
/// for nodes that have no states.
void set_qparams(const Graph& graph, Parameters& parameters, NodeId id,
                 std::span<const QParams<double>> qparams);
/// The same for all channels.
void set_qparams(const Graph& graph, Parameters& parameters, NodeId id, double scale,
                 double zero_point = 0);
/// Scales as a tensor of their shape, symmetric quantizers only.
void set_qparams(const Graph& graph, Parameters& parameters, NodeId id, const Tensor& scales);
/// What the states stand for, one per channel, scales being at least the floor; scale 0 where
/// nothing was observed or set yet, and empty for quantizers without states.
std::vector<QParams<double>> qparams(const Graph& graph, const Parameters& parameters,
                                     NodeId id);
/// Makes the states of the node `id` fit data in `ranges`, one per channel. Throws GraphError,
/// having changed nothing, for another count and for a range that is empty or not finite in the
/// states' dtype. After 0 to 0 a running range and an alpha count as not observed.
void set_ranges(const Graph& graph, Parameters& parameters, NodeId id,
                std::span<const ValueRange<double>> ranges);

}  // namespace qtape
