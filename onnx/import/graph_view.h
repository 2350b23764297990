// Search in the nodes of an ONNX graph, before they are converted.
#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace qtape {

/// A product of values and a number.
struct OnnxFactors {
  double number = 1;
  std::vector<std::string> values = {};
};

/// True if two constants are equal but for rounding.
bool nearly_equal(double a, double b);

class OnnxGraphView {
 public:
  explicit OnnxGraphView(onnx::GraphProto& graph);

  const onnx::GraphProto& graph() const { return graph_; }
  /// Returns the node that computes `name` if it has this type and, but for a Constant, inputs;
  /// otherwise null.
  const onnx::NodeProto* node_of(const std::string& name, std::string_view type) const;
  /// Returns the node that computes `name`, or null.
  const onnx::NodeProto* node_of(const std::string& name) const;
  /// Returns a constant of one float.
  std::optional<double> number(const std::string& name) const;
  /// Returns a constant of at most 4096 integers, with its rank.
  struct Integers {
    std::vector<int64_t> values;
    int rank;
  };
  std::optional<Integers> integers(const std::string& name) const;
  /// Returns a constant of the file or of a node, or null.
  const onnx::TensorProto* tensor(const std::string& name) const;
  /// Returns the factors of `name`, followed through Mul, Div by a number and Pow by 2 or 3,
  /// except those of `whole`.
  OnnxFactors factors(const std::string& name, const std::set<std::string>& whole) const;
  /// True if `name` is `factor` times `values`.
  bool is_product(const std::string& name, double factor,
                  std::vector<std::string> values) const;
  /// Returns the operand of `name` = operand + `constant`.
  std::optional<std::string> summand(const std::string& name, double constant) const;
  /// Returns the inputs of the node that computes `name`, if it has this type.
  std::vector<std::string> operands(const std::string& name, std::string_view type) const;

  /// Gives the node at `index` another operator and other inputs, without attributes; marks
  /// nodes that nothing reads any more.
  onnx::NodeProto& replace(int index, const std::string& type,
                           const std::vector<std::string>& inputs);
  /// Adds a constant of integers of rank 1; returns its name, which is `wanted` or like it.
  std::string add_integers(const std::string& wanted, const std::vector<int64_t>& values);
  /// Removes the marked nodes.
  void remove_unread();

 private:
  void multiply(OnnxFactors& product, const std::string& name,
                const std::set<std::string>& whole, int depth) const;
  void release(std::vector<std::string> names);

  onnx::GraphProto& graph_;
  std::map<std::string, const onnx::TensorProto*> tensors_;
  std::map<std::string, int> producers_;
  std::map<std::string, int> readers_;
  std::set<int> unread_;
};

}  // namespace qtape
