// The nodes of the steps of a recurrent operator, in one direction.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "qtape/onnx/import/importer.h"

namespace qtape {

/// Weights of one direction, with the rows of all gates one after another.
struct RecurrentWeights {
  std::vector<float> input;       ///< [gates hidden, features]
  std::vector<float> state;       ///< [gates hidden, hidden]
  std::vector<float> input_bias;  ///< [gates hidden], or empty
  std::vector<float> state_bias;
};

struct RecurrentShape {
  int64_t hidden = 0;
  int64_t gates = 0;
  int64_t steps = 0;
  bool reverse = false;
  bool reset_after = false;  ///< GRU: the reset gate scales the product, not the state
  bool relu = false;         ///< RNN: ReLU instead of tanh
  std::string label = {};
};

/// Labels are those of the layers `gru` and `lstm`: `<label>.input`, `<label>.state.weight`,
/// and
/// `<label>.<step>` for the state after a step. All nodes are [n, ...].
class RecurrentCell {
 public:
  /// `x` is [n, steps, features].
  RecurrentCell(OnnxImporter& to, NodeId x, RecurrentShape shape)
      : to_(to), x_(x), shape_(std::move(shape)) {}

  void add_weights(const RecurrentWeights& weights);
  /// Returns a state of zeros, which needs no input.
  NodeId zeros();
  /// Returns a state that is the same for all samples.
  NodeId constant(const std::string& name, const std::vector<float>& state);

  /// Return the state after each step, in the order of steps.
  std::vector<NodeId> gru(NodeId h);
  std::vector<NodeId> rnn(NodeId h);
  /// Returns h and c after each step.
  std::pair<std::vector<NodeId>, std::vector<NodeId>> lstm(NodeId h, NodeId c);

 private:
  /// Calls `body(step)` in the order of computation, which returns the states of a step.
  template <class Body>
  void for_each_step(const Body& body);
  /// Returns the products of x and its weights in this step, for gates [first, last).
  NodeId of_input(int64_t first, int64_t last);
  /// Returns the product of h and the weights of all gates.
  NodeId of_state(NodeId h);
  /// Returns the product of `h` and the weights of gates [first, last).
  NodeId product(NodeId h, int64_t first, int64_t last);
  NodeId gates(NodeId all, int64_t first, int64_t last);
  void add_state_weights(int64_t first, int64_t last);
  NodeId parameter(const std::string& part, Shape shape, std::vector<float> numbers);
  /// Returns the state after this step.
  NodeId finish(Op op, std::vector<NodeId> operands);

  OnnxImporter& to_;
  NodeId x_;
  RecurrentShape shape_;
  RecurrentWeights weights_ = {};
  /// Parameters of the products of states.
  struct StateWeights {
    NodeId weight;
    std::optional<NodeId> bias;
  };
  std::map<int64_t, StateWeights> of_states_ = {};  ///< by the first gate
  NodeId of_inputs_ = {};
  int64_t step_ = 0;
};

}  // namespace qtape
