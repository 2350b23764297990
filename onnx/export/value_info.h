// Types and shapes of all values between the nodes of an exported graph.
#pragma once

#include <onnx/onnx_pb.h>

namespace qtape {

/// Adds a value_info for each node output that is not an output of `graph`. Supports the
/// operators of exported programs; throws GraphError for others. -1 in a Reshape is the batch.
void add_value_info(onnx::GraphProto& graph);

}  // namespace qtape
