// Nodes of a file that compute the same value.
#pragma once

namespace onnx {
class GraphProto;
}  // namespace onnx

namespace qtape {

/// Merges each ReduceMean or Sub with an earlier one that has the same operands and attributes:
/// PyTorch writes the variance of a norm with a mean and a difference of its own. Outputs of
/// the graph, and values that branches read, keep their nodes.
void merge_equal_nodes(onnx::GraphProto& graph);

}  // namespace qtape
