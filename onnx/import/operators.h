// Conversion of ONNX operators to graph nodes.
#pragma once

#include <fmt/format.h>

#include "qtape/onnx/import/importer.h"
#include "qtape/onnx/import/windows.h"

namespace qtape {

/// Conversion of one node.
struct OnnxOperators {
  OnnxImporter& to;
  const OnnxNode& node;
  std::vector<std::string>& reasons;  ///< why the node is not supported

  /// Adds the nodes of the graph, or records why the ONNX node is not supported. Attributes and
  /// constants are checked before values, so that all reasons are found even if a value is
  /// unknown.
  void run();

 private:
  using Method = void (OnnxOperators::*)();
  static const std::map<std::string_view, Method>& methods();

  // Products.
  void gemm();
  void matmul();
  void conv();
  void conv_transpose();
  // Windows and reductions.
  void max_pool();
  void average_pool();
  void global_average_pool();
  void reduce_mean();
  void reduce_sum();
  void reduce_max();
  // Elements.
  template <class X>
  void element();
  void leaky_relu();
  void clip();
  void hard_sigmoid();
  void gelu();
  void softmax();
  void log_softmax();
  template <class X>
  void binary();
  void batch_normalization();
  void layer_normalization();
  void pow();
  void dropout();
  void same();
  // Structure.
  void concat();
  void reshape();
  void flatten();
  void squeeze();
  void unsqueeze();
  void transpose();
  void slice();
  void pad();
  void split();
  void resize();
  // Constants and computations on them.
  void constant();
  void fold();
  void constant_of_shape();
  void slice_constant(int64_t start, int64_t end, int64_t step);
  void shape();
  void gather();
  void gather_constant();

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
  void linear(OnnxValue a, const std::string& name, std::vector<float> weight, int64_t out,
              int64_t in, const std::vector<float>& bias, const std::string& bias_name);
  void give_biased(NodeId y, int64_t out, const std::string& label);
  void expect_auto_pad();
  /// Returns the windows of `node` over a value with ONNX shape `shape`.
  Windows windows(const std::vector<int64_t>& shape, const std::vector<int64_t>& kernel);
  template <class PoolOp>
  PoolOp pool(const OnnxValue& a, const Windows& windows);
  void give_pooled(NodeId y, int64_t channels);
  template <class X>
  void reduce(const char* part);
  template <class X>
  void along_axis();
  NodeId with_constant(const OnnxValue& x, const OnnxConstant& constant,
                       const std::string& name);
};

}  // namespace qtape
