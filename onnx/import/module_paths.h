// Names of nodes and modules in ONNX files.
#pragma once

#include <string>
#include <vector>

#include "qtape/onnx/onnx_node.h"

namespace qtape {

/// Returns the path of the module in a node's name: `layer1.0.conv1` for
/// `/layer1/layer1.0/conv1/Conv`, where a part repeats the one before it. Empty if the name has
/// another form.
std::string module_of(const std::string& name, const std::string& type);

/// Returns the name of layers of an operator: `conv`, `linear`, `norm`.
std::string layer_kind(const std::string& type);
std::string lower_case(std::string_view name);

/// Replaces the outputs of a graph by `names`: of values, of nodes, or of modules, each of
/// which stands for its last node. Throws FormatError, with the nearest names, for others.
void end_at(onnx::GraphProto& graph, const std::vector<std::string>& names);

}  // namespace qtape
