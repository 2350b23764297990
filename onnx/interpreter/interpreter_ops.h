// Single ONNX operators: their results, and the types of results.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "qtape/onnx/interpreter/interpreter.h"
#include "qtape/onnx/onnx_node.h"

namespace qtape {

/// The inputs of a node; null for an omitted one.
using OnnxOperands = std::vector<const OnnxArray*>;

/// Returns the first output of a node. Throws FormatError for unsupported operators and
/// operands.
OnnxArray compute_onnx(const OnnxNode& node, const OnnxOperands& operands);

/// Type of a value: of its elements, and its extents, of which -1 is the batch.
struct OnnxType {
  int32_t element = 0;
  std::vector<int64_t> shape = {};
};

/// A node with the types of its operands.
struct OnnxTypes {
  const OnnxNode& node;
  const std::map<std::string, OnnxType>& values;  ///< by name
  const std::map<std::string, std::vector<int64_t>>& constants;

  const OnnxType& in(int k) const { return values.at(node.input(k)); }
  /// Returns the elements of operand `k`, which is a constant of integers.
  const std::vector<int64_t>& numbers(int k) const { return constants.at(node.input(k)); }
};

/// Returns the type of the first output of a node that `to_onnx` writes. Throws GraphError for
/// unsupported operators.
OnnxType onnx_type(const OnnxTypes& operands);

}  // namespace qtape
