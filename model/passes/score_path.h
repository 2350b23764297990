// The nodes between a Softmax and its scores, and the masks among them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "qtape/engine/graph.h"
#include "qtape/engine/parameters.h"
#include "qtape/model/passes/score_mask.h"

namespace qtape {

/// Returns the index of the operand of an Add or Sub that is a leaf, if one of the two is and
/// it is not subtracted from.
std::optional<size_t> leaf_operand(const Graph& graph, NodeId sum);

/// Returns the values that a sum adds to the operand other than `leaf`.
std::vector<float> added_values(const Graph& graph, const Parameters& parameters, NodeId sum,
                                size_t leaf);

/// The nodes from a Softmax to its scores. Refers to the graph and its parameters.
class ScorePath {
 public:
  ScorePath(const Graph& graph, const Parameters& parameters, NodeId softmax);

  /// Moves the mask to `result`, or returns the reason why there is none. Called once, last.
  std::string finish(ScoreMask& result);
  /// True if the sum adds a mask.
  bool is_mask(NodeId sum) const;
  bool contains(NodeId sum) const;
  /// Returns the scores before the first step.
  NodeId scores() const { return last_; }

 private:
  struct Added {
    NodeId sum;
    Shape shape;
    std::vector<float> values;
    float bound;
  };

  /// Goes one node further from the Softmax; false where the scores begin.
  bool step();
  /// True if the leaf of the sum `last_` is a mask.
  bool add_mask(size_t leaf);
  /// Sets the elements of all masks; returns the reason why they have no integers, if any.
  std::string combine();
  /// Makes the biases of a row relative to the largest one; false if no element counts.
  bool make_relative(int64_t begin, int64_t step, int64_t n);

  const Graph& graph_;
  const Parameters& parameters_;
  NodeId last_;
  float factor_ = 1;  // of the steps so far
  ScoreMask mask_;
  std::vector<Added> masks_;
};

}  // namespace qtape
