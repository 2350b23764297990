#include "qtape/onnx/import/recurrent_cell.h"

#include <fmt/format.h>

namespace qtape {

NodeId RecurrentCell::parameter(const std::string& part, Shape shape,
                                std::vector<float> numbers) {
  return to_.add_parameter(fmt::format("{}.{}", shape_.label, part), shape, std::move(numbers));
}

void RecurrentCell::add_weights(const RecurrentWeights& weights) {
  weights_ = weights;
  const int64_t width = shape_.gates * shape_.hidden;
  const auto features = static_cast<int64_t>(weights.input.size()) / width;
  const NodeId w = parameter("input.weight", {width, features}, weights.input);
  const bool biased = !weights.input_bias.empty();
  const std::string label = shape_.label + ".input";
  of_inputs_ = to_.add(MatMul{.transpose_b = true}, {x_, w}, biased ? "" : label);
  if (!biased) return;
  const NodeId b = parameter("input.bias", {width}, weights.input_bias);
  of_inputs_ = to_.add(AddBias{}, {of_inputs_, b}, label);
}

NodeId RecurrentCell::gates(NodeId all, int64_t first, int64_t last) {
  if (first == 0 && last * shape_.hidden == to_.graph()[all].type.shape[-1]) return all;
  return to_.add(Slice{.axis = 1, .begin = first * shape_.hidden, .end = last * shape_.hidden},
                 {all});
}

NodeId RecurrentCell::of_input(int64_t first, int64_t last) {
  const NodeId row = to_.add(Slice{.axis = 1, .begin = step_, .end = step_ + 1}, {of_inputs_});
  const NodeId all = to_.add(Reshape{.shape = {-1, shape_.gates * shape_.hidden}}, {row});
  return gates(all, first, last);
}

void RecurrentCell::add_state_weights(int64_t first, int64_t last) {
  const int64_t hidden = shape_.hidden, rows = (last - first) * hidden;
  const bool whole = last - first == shape_.gates;
  const std::string part = whole ? "state" : fmt::format("state.{}", first);
  const auto from = [&](const std::vector<float>& all, int64_t width) {
    return std::vector<float>(all.begin() + first * hidden * width,
                              all.begin() + last * hidden * width);
  };
  StateWeights& made = of_states_[first];
  made.weight = parameter(part + ".weight", {rows, hidden}, from(weights_.state, hidden));
  if (weights_.state_bias.empty()) return;
  made.bias = parameter(part + ".bias", {rows}, from(weights_.state_bias, 1));
}

NodeId RecurrentCell::product(NodeId h, int64_t first, int64_t last) {
  if (!of_states_.contains(first)) add_state_weights(first, last);
  const StateWeights& made = of_states_.at(first);
  const NodeId y = to_.add(MatMul{.transpose_b = true}, {h, made.weight});
  return made.bias ? to_.add(AddBias{}, {y, *made.bias}) : y;
}

NodeId RecurrentCell::of_state(NodeId h) { return product(h, 0, shape_.gates); }

NodeId RecurrentCell::zeros() {
  step_ = shape_.reverse ? shape_.steps - 1 : 0;
  const NodeId any = to_.add(StopGradient{}, {of_input(0, 1)});
  return to_.add(Clamp{.low = 0, .high = 0}, {any});
}

NodeId RecurrentCell::constant(const std::string& name, const std::vector<float>& state) {
  const NodeId start = to_.add_parameter(name, {shape_.hidden}, state);
  return to_.add(AddBias{}, {zeros(), start});
}

NodeId RecurrentCell::finish(Op op, std::vector<NodeId> operands) {
  return to_.add(std::move(op), std::move(operands), fmt::format("{}.{}", shape_.label, step_));
}

template <class Body>
void RecurrentCell::for_each_step(const Body& body) {
  for (int64_t k = 0; k < shape_.steps; ++k) {
    step_ = shape_.reverse ? shape_.steps - 1 - k : k;
    const int64_t before = to_.graph().size();
    body(static_cast<size_t>(step_));
    if (k == 0) to_.spend_steps(shape_.steps, to_.graph().size() - before);
  }
}

std::vector<NodeId> RecurrentCell::gru(NodeId h) {
  std::vector<NodeId> states(static_cast<size_t>(shape_.steps));
  for_each_step([&](size_t step) {
    const bool after = shape_.reset_after;
    const NodeId of_h = after ? of_state(h) : product(h, 0, 2);
    const NodeId sums = to_.add(Add{}, {of_input(0, 2), gates(of_h, 0, 2)});
    const NodeId both = to_.add(Sigmoid{}, {sums});
    const NodeId reset = gates(both, 0, 1), update = gates(both, 1, 2);
    const NodeId kept = after ? to_.add(Mul{}, {reset, gates(of_h, 2, 3)})
                              : product(to_.add(Mul{}, {reset, h}), 2, 3);
    const NodeId made = to_.add(Tanh{}, {to_.add(Add{}, {of_input(2, 3), kept})});
    const NodeId apart = to_.add(Sub{}, {h, made});
    h = finish(Add{}, {made, to_.add(Mul{}, {update, apart})});
    states[step] = h;
  });
  return states;
}

std::vector<NodeId> RecurrentCell::rnn(NodeId h) {
  std::vector<NodeId> states(static_cast<size_t>(shape_.steps));
  for_each_step([&](size_t step) {
    const NodeId sum = to_.add(Add{}, {of_input(0, 1), of_state(h)});
    h = shape_.relu ? finish(Relu{}, {sum}) : finish(Tanh{}, {sum});
    states[step] = h;
  });
  return states;
}

std::pair<std::vector<NodeId>, std::vector<NodeId>> RecurrentCell::lstm(NodeId h, NodeId c) {
  const auto steps = static_cast<size_t>(shape_.steps);
  std::vector<NodeId> states(steps), cells(steps);
  for_each_step([&](size_t step) {
    const NodeId sums = to_.add(Add{}, {of_input(0, 4), of_state(h)});
    const NodeId before = to_.add(Sigmoid{}, {gates(sums, 0, 2)});
    const NodeId made = to_.add(Tanh{}, {gates(sums, 2, 3)});
    const NodeId output = to_.add(Sigmoid{}, {gates(sums, 3, 4)});
    const NodeId kept = to_.add(Mul{}, {gates(before, 1, 2), c});
    const NodeId added = to_.add(Mul{}, {gates(before, 0, 1), made});
    c = to_.add(Add{}, {kept, added}, fmt::format("{}.{}.cell", shape_.label, step_));
    h = finish(Mul{}, {output, to_.add(Tanh{}, {c})});
    states[step] = h;
    cells[step] = c;
  });
  return {states, cells};
}

}  // namespace qtape
