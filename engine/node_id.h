// Nodes by their index: ids, all ids of a graph or program, and values by node.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace qtape {

/// Index of a node in its graph or program. Formatted as `%3`.
struct NodeId {
  int32_t index = -1;
  auto operator<=>(const NodeId&) const = default;
};

/// Returns the index of a node in a vector that has one element for each node.
constexpr size_t at(NodeId id) { return static_cast<size_t>(id.index); }

/// The ids of `size` nodes, in their order.
class NodeIds {
 public:
  /// One id after another.
  class Iterator {
   public:
    explicit constexpr Iterator(int32_t index) : index_(index) {}
    constexpr NodeId operator*() const { return {index_}; }
    constexpr Iterator& operator++() {
      ++index_;
      return *this;
    }
    constexpr bool operator==(const Iterator&) const = default;

   private:
    int32_t index_;
  };

  explicit constexpr NodeIds(int32_t size) : size_(size) {}
  constexpr Iterator begin() const { return Iterator(0); }
  constexpr Iterator end() const { return Iterator(size_); }

 private:
  int32_t size_;
};

/// Returns the ids of all nodes of a graph or an integer program, in topological order.
template <class Nodes>
constexpr NodeIds ids(const Nodes& nodes) {
  return NodeIds(static_cast<int32_t>(nodes.size()));
}

}  // namespace qtape
