// What the operators of ONNX compute.
#pragma once

#include <vector>

#include "qtape/onnx/interpreter.h"
#include "qtape/onnx/onnx_node.h"

namespace qtape {

/// The inputs of a node; null where one is left out.
using OnnxOperands = std::vector<const OnnxArray*>;

/// The first output of a node. Throws FormatError for operators that are not known and for
/// operands that this one does not take.
OnnxArray compute_onnx(const OnnxNode& node, const OnnxOperands& operands);

}  // namespace qtape
