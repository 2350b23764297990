// Quantizers of a graph, as their users handle them: scales set and read by name.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "qtape/engine/graph.h"
#include "qtape/engine/parameters.h"

namespace qtape {

/// Sets the scales in the state `name`: one number for all channels.
/// Throws GraphError unless every scale is a positive normal number of the state's dtype.
void set_qparams(Parameters& parameters, std::string_view name, double scale);
/// One number per channel; throws GraphError for another length.
void set_qparams(Parameters& parameters, std::string_view name, std::span<const double> scales);
/// A tensor of the state's shape and dtype.
void set_qparams(Parameters& parameters, std::string_view name, const Tensor& scales);

/// The scales in the state `name`; 0 where nothing was observed or set yet.
std::vector<double> qparams(const Parameters& parameters, std::string_view name);

/// The FakeQuantize nodes of a graph, in order.
std::vector<NodeId> quantizers(const Graph& graph);

}  // namespace qtape
