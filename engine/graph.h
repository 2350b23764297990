// Graph: a computation as a value, independent of memory, threads and oneDNN.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/engine/node_id.h"
#include "qtape/engine/node_list.h"
#include "qtape/ops/ops.h"

namespace qtape {

/// An op with its operands and the type of its result.
struct Node {
  Op op;
  std::vector<NodeId> operands;
  std::string label;  ///< unique unless empty
  TensorType type;    ///< inferred
  bool operator==(const Node&) const = default;
};

/// Returns the type of the result.
inline const TensorType& type_of(const Node& node) { return node.type; }

/// Append-only nodes in topological order. Shapes and dtypes are always inferred.
class Graph : public NodeList<Graph, Node> {
 public:
  static constexpr std::string_view noun = "graph";

  /// Appends a node. This is the only way to create one, also when files are loaded. Throws
  /// GraphError, leaving the graph unchanged, for a missing or surplus operand; for attributes,
  /// shapes or dtypes that the op rejects; for an operand without the scales that its slot
  /// reads; for a label in use; for a persistent leaf without a label; for a state with two
  /// writers or with a reader before its writer (with Slot::after_readers: only if it reads in
  /// backward); and for inputs that disagree on the batch extent.
  NodeId add(Op op, std::span<const NodeId> operands, std::string label = {});
  NodeId add(Op op, std::initializer_list<NodeId> operands, std::string label = {}) {
    return add(std::move(op), std::span(operands.begin(), operands.size()), std::move(label));
  }

  /// Sets the outputs of the graph, the main one first. Losses are not declared: see losses().
  void set_outputs(std::vector<NodeId> outputs);
  /// Sets the outputs and declares which of them are losses: training minimises them, and
  /// integer programs omit them. Throws GraphError, leaving the graph unchanged, for a loss
  /// that is not an output or not a float scalar.
  void set_outputs(std::vector<NodeId> outputs, const std::vector<NodeId>& losses);
  /// Sets the outputs and losses to the copies of those of `from`.
  void copy_outputs(const Graph& from, const NodeMap<NodeId>& copies);
  /// Outputs that are losses, in order. If none are declared: all outputs after the first that
  /// are f32 or f64 scalars and depend on a parameter.
  std::vector<NodeId> losses() const;
  bool states_losses() const { return losses_.has_value(); }
  /// Outputs that are not losses, in order: the predictions of the network.
  std::vector<NodeId> answers() const;

  /// Calls `add`, which appends nodes, and returns its result. If it throws, the nodes that it
  /// appended are removed. `add` must not set outputs.
  template <class Add>
  auto all_or_nothing(const Add& add) {
    const int64_t before = size();
    try {
      return add();
    } catch (...) {
      remove_from(before);
      throw;
    }
  }

  /// Returns this graph with another batch extent, with all types inferred again. Throws
  /// GraphError if the ops reject it.
  Graph with_batch(int64_t batch) const;

  bool operator==(const Graph& other) const {
    return nodes_ == other.nodes_ && outputs_ == other.outputs_ && losses_ == other.losses_;
  }

 private:
  struct StateUse {
    std::optional<NodeId> writer;
    std::optional<NodeId> reader;  ///< the first one
    std::optional<NodeId> keeper;  ///< the first that reads it after forward (backward or view)
  };

  void check_operands(std::span<const Slot> slots, std::span<const NodeId> operands) const;
  void check_label(const Op& op, const std::string& label) const;
  void check_states(std::span<const Slot> slots, std::span<const NodeId> operands) const;
  void note_states(std::span<const Slot> slots, const Keep& keep,
                   std::span<const NodeId> operands, NodeId id);
  TensorType infer(const Op& op, std::span<const NodeId> operands) const;
  void check_scales(std::span<const Slot> slots, std::span<const NodeId> operands) const;

  /// Removes all nodes from index `first` on.
  void remove_from(int64_t first);

  bool depends_on_parameters(NodeId id) const;

  std::optional<std::vector<NodeId>> losses_;  // in the order of outputs_
  std::map<NodeId, StateUse> states_;

  friend std::string to_string(const Graph& graph);
};

/// All nodes, one per line:
/// `%2 'fc1' f32[8, 3] = MatMul {transpose_b: true} (%0 'x', %1 'fc1.w')`.
std::string to_string(const Graph& graph);

/// By node: true if one of `outputs` depends on it. Throws GraphError for ids that are not in
/// the graph.
std::vector<bool> needed_for(const Graph& graph, std::span<const NodeId> outputs);

}  // namespace qtape
