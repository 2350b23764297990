// Nodes by their index: ids, all ids of a graph or an integer program, and values by node.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace qtape {

/// Index of a node in `Nodes`, a Graph or an IntegerProgram. The two kinds of ids cannot be
/// mixed.
template <class Nodes>
struct IdIn {
  int32_t index = -1;
  auto operator<=>(const IdIn&) const = default;
};

class Graph;
/// Index of a node in its graph.
using NodeId = IdIn<Graph>;

/// Returns the index of a node in a vector that has one element for each node.
template <class Nodes>
constexpr size_t at(IdIn<Nodes> id) {
  return static_cast<size_t>(id.index);
}

/// The ids of `size` nodes, in their order.
template <class Nodes>
class NodeIds {
 public:
  /// Iterates over the ids in order.
  class Iterator {
   public:
    explicit constexpr Iterator(int32_t index) : index_(index) {}
    constexpr IdIn<Nodes> operator*() const { return {index_}; }
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
constexpr NodeIds<Nodes> ids(const Nodes& nodes) {
  return NodeIds<Nodes>(static_cast<int32_t>(nodes.size()));
}

/// One value for each node of a graph or an integer program.
template <class T, class Nodes = Graph>
class NodeMap {
 public:
  NodeMap() = default;
  explicit NodeMap(const Nodes& nodes, const T& value = {})
      : values_(static_cast<size_t>(nodes.size()), value) {}

  decltype(auto) operator[](IdIn<Nodes> id) { return values_[at(id)]; }
  decltype(auto) operator[](IdIn<Nodes> id) const { return values_[at(id)]; }

 private:
  std::vector<T> values_;
};

}  // namespace qtape
