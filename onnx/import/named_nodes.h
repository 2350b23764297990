// A list of ONNX nodes that replaces that of a graph.
#pragma once

#include <onnx/onnx_pb.h>

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace qtape {

class NamedNodes {
 public:
  /// `graph` gives the names that are taken.
  explicit NamedNodes(const onnx::GraphProto& graph);

  /// Returns `wanted`, or it with a number if it is taken, and takes it.
  std::string free_name(const std::string& wanted);
  onnx::NodeProto& add(const onnx::NodeProto& node);
  /// Adds a node with the name of `of`.
  onnx::NodeProto& add(const onnx::NodeProto& of, const std::string& type,
                       const std::vector<std::string>& inputs, const std::string& output);
  /// Returns the values of codes, a scale and a zero point, whose several scales belong to
  /// `axis`. Equal operands of several nodes share them.
  std::string dequantized(const onnx::NodeProto& of, const std::array<std::string, 3>& operand,
                          int64_t axis);
  /// Returns the values of a bias in 32 bits, whose scale is the product of two.
  std::string dequantized_bias(const onnx::NodeProto& of, const std::string& bias,
                               const std::string& x_scale, const std::string& w_scale);
  void replace_those_of(onnx::GraphProto& graph);

 private:
  std::vector<onnx::NodeProto> nodes_;
  std::set<std::string> taken_;
  std::map<std::vector<std::string>, std::string> known_;  // values, by their operands
};

}  // namespace qtape
