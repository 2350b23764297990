// A sequence of nodes with stable addresses.
#pragma once

#include <compare>
#include <cstddef>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

namespace qtape {

/// A sequence of immutable nodes. References to a node stay valid while the sequence
/// grows, and copies of a sequence share its nodes.
template <class Node>
class NodeSequence {
 public:
  /// A random-access iterator.
  class Iterator {
   public:
    using value_type = Node;
    using difference_type = std::ptrdiff_t;
    using reference = const Node&;
    using pointer = const Node*;
    using iterator_category = std::random_access_iterator_tag;

    Iterator() = default;
    explicit Iterator(const std::shared_ptr<const Node>* at) : at_(at) {}
    reference operator*() const { return **at_; }
    pointer operator->() const { return at_->get(); }
    reference operator[](difference_type n) const { return *at_[n]; }
    Iterator& operator++() { return *this += 1; }
    Iterator& operator--() { return *this += -1; }
    Iterator operator++(int) { return Iterator(at_++); }
    Iterator operator--(int) { return Iterator(at_--); }
    Iterator& operator+=(difference_type n) {
      at_ += n;
      return *this;
    }
    Iterator& operator-=(difference_type n) { return *this += -n; }
    friend Iterator operator+(Iterator i, difference_type n) { return i += n; }
    friend Iterator operator+(difference_type n, Iterator i) { return i += n; }
    friend Iterator operator-(Iterator i, difference_type n) { return i -= n; }
    friend difference_type operator-(Iterator a, Iterator b) { return a.at_ - b.at_; }
    friend auto operator<=>(Iterator, Iterator) = default;

   private:
    const std::shared_ptr<const Node>* at_ = nullptr;
  };

  size_t size() const { return nodes_.size(); }
  bool empty() const { return nodes_.empty(); }
  const Node& operator[](size_t i) const { return *nodes_[i]; }
  Iterator begin() const { return Iterator(nodes_.data()); }
  Iterator end() const { return Iterator(nodes_.data() + nodes_.size()); }

  void push_back(Node node) { nodes_.push_back(std::make_shared<const Node>(std::move(node))); }
  /// Removes all nodes except the first `size`, which must not exceed the number of nodes.
  void shorten(size_t size) { nodes_.resize(size); }

  bool operator==(const NodeSequence& other) const {
    if (size() != other.size()) return false;
    for (size_t i = 0; i < size(); ++i) {
      if (nodes_[i] != other.nodes_[i] && !(*nodes_[i] == *other.nodes_[i])) return false;
    }
    return true;
  }

 private:
  std::vector<std::shared_ptr<const Node>> nodes_;
};

}  // namespace qtape
