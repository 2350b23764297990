// Conversion of ONNX operators to graph nodes.
#pragma once

#include <fmt/format.h>

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qtape/onnx/import/importer.h"
#include "qtape/onnx/import/windows.h"

namespace qtape {

/// Conversion of one node: the common part of all operators. The file of each family derives a
/// struct.
struct OnnxOperators {
  OnnxImporter& to;
  const OnnxNode& node;
  std::vector<std::string>& reasons;  ///< why the node is not supported

  /// Adds the nodes of the graph, or records why the ONNX node is not supported. Attributes and
  /// constants are checked before values, so that all reasons are found even if a value is
  /// unknown.
  void run() const;

  /// Records a reason unless `condition` holds.
  template <class... Args>
  void expect(bool condition, fmt::format_string<Args...> text, Args&&... args) {
    if (!condition) reasons.push_back(fmt::format(text, std::forward<Args>(args)...));
  }
  /// Records a reason unless an attribute is absent or equals `value`.
  void expect_attribute(const char* name, int64_t value) {
    const int64_t found = node.integer(name, value);
    expect(found == value, "attribute {} is {}, only {} is supported", name, found, value);
  }
  /// Records a reason unless input `k` is constant floats of rank `rank`.
  void expect_weights(int k, int rank, std::string_view kind);
  /// Records a reason unless attribute auto_pad has a known value.
  void expect_auto_pad();
  /// Throws OnnxRefused if there are reasons.
  void settle() const {
    if (!reasons.empty()) throw OnnxRefused();
  }
  OnnxValue operand(int k) {
    settle();
    return to.value(node, k);
  }
  OnnxValue x() { return operand(0); }
  void give(OnnxValue value, int k = 0) { to.give(node, std::move(value), k); }
  void give_integers(std::vector<int64_t> numbers);
  bool constant_input() const { return to.is_constant(node.input(0)); }
  /// Returns the windows of `node` over a value with ONNX shape `shape`.
  Windows windows(const std::vector<int64_t>& shape, const std::vector<int64_t>& kernel);

  // Operators of several families.
  /// Sets the output to operand 0.
  void same();
  /// Computes arithmetic of two constants with the same shape, or of which one is a single
  /// number.
  void fold();
  /// Selects rows of a constant; the step may be negative.
  void slice_constant(int64_t start, int64_t end, int64_t step);
};

/// An ONNX operator and its conversion.
struct OnnxOperator {
  std::string_view type;
  void (*convert)(const OnnxOperators&);
};

/// Calls `method` of a family of operators.
template <auto method>
void convert(const OnnxOperators& node) {
  [&]<class Family>(void (Family::*)()) { (Family{node}.*method)(); }(method);
}

// The operators of each file.
std::span<const OnnxOperator> constant_conversions();
std::span<const OnnxOperator> element_conversions();
std::span<const OnnxOperator> product_conversions();
std::span<const OnnxOperator> structure_conversions();
std::span<const OnnxOperator> window_conversions();

}  // namespace qtape
