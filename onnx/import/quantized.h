// Codes of quantized ONNX models.
#pragma once

#include "qtape/engine/graph.h"
#include "qtape/onnx/tensor_proto.h"

namespace qtape {

/// Returns the quantizer that rounds to `codes`, whose scales belong to axis `axis` of its
/// operand if there are several.
FakeQuantize quantizer_for(const OnnxCodes& codes, int axis);

/// Adds a rounding to the grid of their sums to biases of products whose operands are
/// quantized.
Graph with_rounded_biases(const Graph& graph);

}  // namespace qtape
