// Functions on the quantizers of a graph: adding and finding them, and setting and reading
// their scales.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "qtape/engine/graph.h"
#include "qtape/engine/parameters.h"
#include "qtape/ops/quantizer_ops.h"

namespace qtape {

/// Quantizer nodes of a graph, in order.
std::vector<NodeId> quantizers(const Graph& graph);
/// Grid of the quantizer `id`. Throws GraphError for other nodes.
Grid grid_of(const Graph& graph, NodeId id);
/// Parameters that the quantizer `id` trains, in the order of its operands: scales and zero
/// points or a limit. Empty if observers set its scales, or if these are fixed.
std::vector<NodeId> trained_scales(const Graph& graph, NodeId id);
/// Map from elements to scales of the quantizer `id`. Throws GraphError for other nodes.
ChannelMap channel_map(const Graph& graph, NodeId id);

/// Returns a quantizer whose scales and zero points are known and stay as they are, one for a
/// tensor or one for each index of `axis`: affine if one of the zero points is not 0. Its floor
/// is at most each scale. `set_qparams` sets them. Throws ArgumentError without scales.
FakeQuantize quantizer_for(int bits, CodeRange range, std::span<const QParams<double>> qparams,
                           int axis = 0);

/// Adds `quantizer`, any quantizer op, after `x` as the node `<label>.quantized`. Adds its
/// states and parameters with labels formed from `label` and the slots, such as
/// `fc1.input.scale`. Throws GraphError if `quantizer` does not fit x.
NodeId add_quantizer(Graph& graph, NodeId x, const Op& quantizer, const std::string& label);

/// Sets the scales and, if affine, the zero points of the quantizer `id`: one per channel, in
/// channel order. A range or a clipping value that the quantizer stores instead is set to
/// reproduce them within one unit in the last place. A scale below the floor acts as the floor.
/// Throws GraphError, changing nothing, unless every scale is a positive normal number of the
/// states' dtype and every zero point is one of the codes; and for nodes without states.
void set_qparams(const Graph& graph, Parameters& parameters, NodeId id,
                 std::span<const QParams<double>> qparams);
/// Sets the scale and the zero point of all channels.
void set_qparams(const Graph& graph, Parameters& parameters, NodeId id, double scale,
                 double zero_point = 0);
/// Sets the scales from a tensor of their shape. Only for symmetric quantizers.
void set_qparams(const Graph& graph, Parameters& parameters, NodeId id, const Tensor& scales);
/// Scales and zero points represented by the states, one per channel. Scales are at least the
/// floor, or 0 if nothing was observed or set yet. Empty for quantizers without states.
std::vector<QParams<double>> qparams(const Graph& graph, const Parameters& parameters,
                                     NodeId id);
/// Sets the states of the quantizer `id` for data in `ranges`, one per channel. Throws
/// GraphError, changing nothing, for a different number of ranges and for a range that is empty
/// or not finite in the states' dtype. A range of 0 to 0 counts as observed: it sets the range
/// -1 to 1, or 0 to 1 of unsigned codes, which the first data other than 0 replace.
void set_ranges(const Graph& graph, Parameters& parameters, NodeId id,
                std::span<const ValueRange<double>> ranges);

}  // namespace qtape
