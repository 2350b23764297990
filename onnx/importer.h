// The state of an import: what is known of each name of an ONNX graph, and the graph that
// grows.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "qtape/engine/graph.h"
#include "qtape/onnx/onnx_node.h"
#include "qtape/onnx/problems.h"
#include "qtape/onnx/tensor_proto.h"

namespace qtape {

/// How the numbers of a value lie, seen from what ONNX says of them.
enum class OnnxLayout : uint8_t {
  Same,          ///< as ONNX has them
  ChannelsLast,  ///< [n, c, ...] lies as [n, ..., c]
  Flat           ///< the axes of a ChannelsLast value behind n joined as they lie
};

/// A value of an ONNX graph.
struct OnnxValue {
  NodeId id;
  std::vector<int64_t> shape;  ///< as ONNX has it; the batch extent is 1
  OnnxLayout layout = OnnxLayout::Same;
  std::vector<int64_t> flat = {};  ///< of Flat: [c, ...] before they were joined

  int rank() const { return static_cast<int>(shape.size()); }
};

/// The batch extent among whole numbers that are computed of shapes.
inline constexpr int64_t onnx_batch = INT64_MIN;

class OnnxImporter {
 public:
  /// `opset` is that of the default domain. Nodes may make constants and parameters of
  /// `most_elements` in all. Outputs need the values of `needed` names.
  OnnxImporter(int64_t opset, int64_t most_elements, std::set<std::string> needed)
      : opset_(opset), elements_left_(most_elements), needed_(std::move(needed)) {}

  /// A constant of the file.
  void add_tensor(const onnx::TensorProto& tensor);
  /// An input as the file declares it. Of rank 3 it is channels last where `one_axis` says so.
  void add_input(const onnx::ValueInfoProto& input, bool one_axis);
  /// The node at `index` of the graph. What keeps it from being read is noted.
  void add_node(int64_t index, const OnnxNode& node);
  /// The shape of a value, as the file declares it: what follows a node that was refused is
  /// checked with it.
  void declare(const onnx::ValueInfoProto& value);
  /// Notes that the tensor `name` is not read.
  void refuse_tensor(const std::string& name, const std::string& reason);
  /// Whether a node can be computed before inputs are known: it reads constants alone.
  bool reads_constants(const OnnxNode& node) const;
  /// The constant of that name, else none.
  const OnnxConstant* find_constant(const std::string& name) const;
  /// The graph, its outputs being those that ONNX names. Throws FormatError with everything
  /// that cannot be read.
  Graph finish(const std::vector<std::string>& outputs);
  /// Values of the parameters and states of the graph.
  const std::map<std::string, Tensor>& values() const { return parameters_; }

 private:
  friend struct OnnxOperators;

  /// Throws FormatError beyond the elements that may be made.
  void add_constant(const std::string& name, OnnxConstant constant);
  void read(const OnnxNode& node, std::vector<std::string>& reasons);
  /// In place of the outputs of a refused node: a value of the shape that they would have, for
  /// the checks of what follows, else an unknown one.
  void stand_in(const OnnxNode& node);
  void stand_in(const std::string& name);

  // What nodes read.
  OnnxValue value(const OnnxNode& node, int k) const;
  bool is_constant(const std::string& name) const { return constants_.contains(name); }
  bool has_input(const OnnxNode& node, int k) const { return !node.input(k).empty(); }
  const OnnxConstant& constant(const OnnxNode& node, int k) const;
  std::vector<float> floats(const OnnxNode& node, int k, int64_t count) const;
  std::vector<int64_t> integers(const OnnxNode& node, int k) const;
  /// An attribute of whole numbers that later opsets made an input.
  std::optional<std::vector<int64_t>> integers_or(const OnnxNode& node, const char* name,
                                                  int k) const;

  // What nodes give.
  void spend(int64_t elements);
  /// A parameter of that name with these numbers that there is already.
  std::optional<NodeId> known_parameter(const std::string& name, const Tensor& tensor) const;
  NodeId add_leaf(Op leaf, const std::string& name, Tensor tensor);
  void give(const OnnxNode& node, OnnxValue value, int k = 0);
  NodeId add(Op op, std::vector<NodeId> operands, std::string label = {});
  /// The constant `name` as a parameter: called after `layer` and `part` where an exporter only
  /// numbered it.
  NodeId add_parameter(const std::string& name, Shape shape, std::vector<float> numbers,
                       const std::string& layer = {}, std::string_view part = {});
  NodeId add_state(const std::string& name, Shape shape, std::vector<float> numbers);
  std::string free_label(const std::string& wanted) const;
  /// The label of a layer: the name of its weight without `.weight`, else the module that the
  /// node's name names; empty where that is taken.
  std::string layer_label(const OnnxNode& node) const;
  /// The label of a node without weights: its module and `part`.
  std::string node_label(const OnnxNode& node, const std::string& part) const;
  /// `value` under the name of an output.
  NodeId named_output(NodeId value, const std::string& name);

  // Layouts.
  /// `id` with its axes in another order, axis 0 in its place: a Reshape where only extents of
  /// 1 move.
  NodeId permuted(NodeId id, std::vector<int> permutation);
  OnnxValue to_same(OnnxValue value);
  OnnxValue to_channels_last(OnnxValue value);
  /// Where axis `axis` of ONNX lies, for values that are not Flat.
  static int physical_axis(const OnnxValue& value, int64_t axis);
  /// Where the numbers of a Flat value come from: element k of ours is element order[k].
  static std::vector<size_t> flat_order(const std::vector<int64_t>& flat);
  OnnxValue reshaped(const OnnxValue& value, const std::vector<int64_t>& shape);

  int64_t opset_;
  Graph graph_;
  int64_t declared_batch_ = 0;
  std::map<std::string, OnnxValue> values_;
  std::map<std::string, OnnxConstant> constants_;
  std::map<std::string, Tensor> parameters_;
  std::multimap<std::string, NodeId> leaves_;  // by the name of the constant
  int64_t elements_left_;
  std::set<std::string> needed_;
  std::map<std::string, std::vector<int64_t>> declared_;  // shapes of floats
  std::set<std::string> unknown_;                         // given by refused nodes
  OnnxProblems problems_;
  bool one_axis_ = false;  // values of rank 3 have channels
};

/// A whole number of a constant as messages show it: `batch`, or its digits.
std::string onnx_number(int64_t number);
/// `[batch, 3, 8]`.
std::string extents_text(const std::vector<int64_t>& extents);

/// a b. Throws FormatError for negative ones and beyond the elements of any tensor.
int64_t onnx_product(int64_t a, int64_t b);

/// `axis` from the front. Throws FormatError outside of -rank..rank-1.
int onnx_axis(int64_t axis, int rank);

}  // namespace qtape
