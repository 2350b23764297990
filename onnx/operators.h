// What each ONNX operator becomes.
#pragma once

#include "qtape/onnx/importer.h"

namespace qtape {

/// One node on its way into a graph.
struct OnnxOperators {
  OnnxImporter& to;
  const OnnxNode& node;

  /// Adds what the node becomes. Throws FormatError for an operator without a counterpart.
  void run();

 private:
  using Method = void (OnnxOperators::*)();
  static const std::map<std::string_view, Method>& methods();

  // Products.
  void gemm();
  void matmul();
  void conv();
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
  // Constants and what is computed of them.
  void constant();
  void constant_of_shape();
  void slice_constant(int64_t start, int64_t end, int64_t step);
  void shape();
  void gather();

  OnnxValue x() { return to.value(node, 0); }
  void give(OnnxValue value) { to.give(node, std::move(value)); }
  void give_integers(std::vector<int64_t> numbers);
  bool constant_input() const { return to.is_constant(node.input(0)); }
  void linear(OnnxValue a, const std::string& name, std::vector<float> weight, int64_t out,
              int64_t in, const std::vector<float>& bias, const std::string& bias_name);
  template <class PoolOp>
  PoolOp pool(int axes);
  template <class X>
  void reduce();
  template <class X>
  void along_axis();
  NodeId with_constant(const OnnxValue& x, const OnnxConstant& constant,
                       const std::string& name);
};

}  // namespace qtape
