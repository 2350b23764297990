// Graph: what to compute, as a value. Knows nothing of memory, threads or oneDNN.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/ops/ops.h"

namespace qtape {

/// Index of a node in its graph. Printed as `%3`.
struct NodeId {
  int32_t index = -1;
  auto operator<=>(const NodeId&) const = default;
};

/// An op, what it is applied to and what comes of it.
struct Node {
  Op op;
  std::vector<NodeId> operands;
  std::string label;  ///< unique unless empty
  TensorType type;    ///< inferred
  bool operator==(const Node&) const = default;
};

/// Append-only nodes in topological order. Shapes and dtypes are inferred, never passed.
class Graph {
 public:
  /// Appends a node. The only way to make one: files are loaded through it. Throws GraphError,
  /// leaving the graph as it was, for a missing or surplus operand, attributes, shapes or
  /// dtypes that the op refuses, an operand without the scales that its slot reads, a label in
  /// use, a leaf to be stored without a label, a state with two writers or read before its
  /// writer (where Slot::after_readers allows that: in backward), and inputs that disagree on
  /// the batch extent.
  NodeId add(Op op, std::span<const NodeId> operands, std::string label = {});
  NodeId add(Op op, std::initializer_list<NodeId> operands, std::string label = {}) {
    return add(std::move(op), std::span(operands.begin(), operands.size()), std::move(label));
  }

  int64_t size() const { return static_cast<int64_t>(nodes_.size()); }
  std::span<const Node> nodes() const { return nodes_; }
  /// Throws GraphError for an id that is not of this graph.
  const Node& operator[](NodeId id) const;
  std::optional<NodeId> find(std::string_view label) const;
  /// The node called `label`; throws GraphError when there is none.
  NodeId at(std::string_view label) const;

  /// Names the nodes that a user of the graph wants, the first one first. Which of them are
  /// losses is not stated: see losses().
  void set_outputs(std::vector<NodeId> outputs);
  /// The same and which of the outputs are losses: what training minimises and no program
  /// yields. Throws GraphError for a loss that is no output or no scalar of floats, which
  /// changes nothing.
  void set_outputs(std::vector<NodeId> outputs, const std::vector<NodeId>& losses);
  /// Names the copies of what `from` names, losses as there.
  void copy_outputs(const Graph& from, const std::function<NodeId(NodeId)>& copy_of);
  std::span<const NodeId> outputs() const { return outputs_; }
  /// The outputs that are losses, in order: those stated, or else all after the first that are
  /// f32 or f64 without axes and depend on a parameter.
  std::vector<NodeId> losses() const;
  bool states_losses() const { return losses_.has_value(); }
  /// The outputs that are no losses, in order: the answers of the network.
  std::vector<NodeId> answers() const;

  /// The batch extent of the batched inputs, if there are any.
  std::optional<int64_t> batch() const { return batch_; }
  /// This graph with another batch extent, every node inferred anew. Throws GraphError.
  Graph with_batch(int64_t batch) const;

  /// The label of a node, or `%7` where it has none.
  std::string name(NodeId id) const;
  /// One line that locates a node: `MatMul %2 'fc1' (%0 'x' f32[8, 4], %1 'fc1.w' f32[5, 3])`,
  /// with the first 16 operands and labels as `printable` gives them.
  std::string describe(NodeId id) const;

  bool operator==(const Graph& other) const {
    return nodes_ == other.nodes_ && outputs_ == other.outputs_ && losses_ == other.losses_;
  }

 private:
  struct StateUse {
    std::optional<NodeId> writer;
    std::optional<NodeId> reader;
    std::optional<NodeId>
        keeper;  ///< one that may read it after forward: in backward, or a view
  };

  std::string describe(const Op& op, std::span<const NodeId> operands, std::string_view label,
                       int64_t index) const;
  void check_operands(std::span<const Slot> slots, std::span<const NodeId> operands) const;
  void check_label(const Op& op, const std::string& label) const;
  void check_states(std::span<const Slot> slots, std::span<const NodeId> operands) const;
  void note_states(std::span<const Slot> slots, const Keep& keep,
                   std::span<const NodeId> operands, NodeId id);
  TensorType infer(const Op& op, std::span<const NodeId> operands) const;
  void check_scales(std::span<const Slot> slots, std::span<const NodeId> operands) const;

  bool depends_on_parameters(NodeId id) const;

  std::vector<Node> nodes_;
  std::vector<NodeId> outputs_;
  std::optional<std::vector<NodeId>> losses_;  // in the order of outputs_
  std::map<std::string, NodeId, std::less<>> labels_;
  std::map<NodeId, StateUse> states_;
  std::optional<int64_t> batch_;
};

/// All nodes, one a line: `%2 'fc1' f32[8, 3] = MatMul {transpose_b: true} (%0 'x', %1
/// 'fc1.w')`.
std::string to_string(const Graph& graph);

}  // namespace qtape
