// Computation of single ONNX operators.
#pragma once

#include <vector>

#include "qtape/onnx/interpreter/interpreter.h"
#include "qtape/onnx/onnx_node.h"

namespace qtape {

/// The inputs of a node; null for an omitted one.
using OnnxOperands = std::vector<const OnnxArray*>;

/// Returns the first output of a node. Throws FormatError for unsupported operators and
/// operands.
OnnxArray compute_onnx(const OnnxNode& node, const OnnxOperands& operands);

}  // namespace qtape
