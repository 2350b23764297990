// The common part of graphs and integer programs: a list of nodes in topological order.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qtape/engine/node_id.h"
#include "qtape/engine/node_sequence.h"

namespace qtape {

/// Nodes of type Node, found by id or by label, with outputs and a batch extent. `Self` is the
/// derived class; `Self::noun` names it in messages. Definitions are in engine/node_list.inl.h.
template <class Self, class Node>
class NodeList {
 public:
  using Id = IdIn<Self>;

  NodeList() = default;
  NodeList(const NodeList&) = default;
  NodeList& operator=(const NodeList&) = default;
  /// Leaves `other` without nodes, outputs and batch.
  NodeList(NodeList&& other) noexcept { *this = std::move(other); }
  NodeList& operator=(NodeList&& other) noexcept {
    if (this == &other) return *this;
    nodes_ = std::exchange(other.nodes_, {});
    outputs_ = std::exchange(other.outputs_, {});
    labels_ = std::exchange(other.labels_, {});
    batch_ = std::exchange(other.batch_, std::nullopt);
    return *this;
  }
  ~NodeList() = default;

  int64_t size() const { return static_cast<int64_t>(nodes_.size()); }
  /// References to nodes stay valid while nodes are added.
  const NodeSequence<Node>& nodes() const& { return nodes_; }
  NodeSequence<Node> nodes() && { return std::move(nodes_); }
  /// Throws GraphError for an id that is not in this list.
  const Node& operator[](Id id) const;
  std::optional<Id> find(std::string_view label) const;
  /// Returns the node with the label `label`. Throws GraphError if there is none.
  Id at(std::string_view label) const;

  std::span<const Id> outputs() const& { return outputs_; }
  std::vector<Id> outputs() && { return std::move(outputs_); }
  /// Batch extent of the batched inputs, if there are any.
  std::optional<int64_t> batch() const { return batch_; }

  /// Label of a node, or `%7` if it has none.
  std::string name(Id id) const;
  /// One line that identifies a node, with its first 16 operands, and labels escaped by
  /// `printable`: `MatMul %2 'fc1' (%0 'x' f32[8, 4], %1 'fc1.w' f32[5, 3])`.
  std::string describe(Id id) const;

 protected:
  template <class Op>
  std::string describe(const Op& op, std::span<const Id> operands, std::string_view label,
                       int64_t index) const;
  /// Returns `%7 'label'`, or `%7` for a node without a label.
  std::string reference(Id id) const;
  /// Throws GraphError if `label` is already used.
  void check_unused(const std::string& label) const;
  /// Throws GraphError if batched inputs have another extent.
  void check_batch(int64_t extent) const;
  Id append(Node node);
  /// Sets the outputs. Throws GraphError, changing nothing, for ids that are not in this list.
  void replace_outputs(std::vector<Id> outputs);
  /// Appends the nodes of `from` with the extent `batch` of batched inputs, of type Input.
  template <class Input>
  void append_with_batch(const Self& from, int64_t batch);

  NodeSequence<Node> nodes_;
  std::vector<Id> outputs_;
  std::map<std::string, Id, std::less<>> labels_;
  std::optional<int64_t> batch_;
};

}  // namespace qtape
