// Functions of an ONNX model, such as the modules of PyTorch that exporters keep, as the nodes
// of their bodies.
#pragma once

#include <map>
#include <string>

#include "qtape/onnx/onnx_node.h"

namespace qtape {

/// Replaces each call of a function of `model` by the nodes of its body, also within bodies.
///
/// - Values of a body get names that no other value has; nodes get the name of the call, a
///   slash, and their own name.
/// - References to attributes of the function are replaced by the attributes of the call, else
///   by the defaults of the function.
/// - A call that cannot be replaced is kept. Returns the reason by the index of its node: a
///   function that calls itself, functions within more than 64 others, more than 100,000 nodes
///   or 16 times the bytes of the model, other opsets, too many inputs or outputs.
std::map<int, std::string> inline_functions(onnx::ModelProto& model);

}  // namespace qtape
