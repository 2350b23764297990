// GRU, LSTM and RNN, unrolled: one set of nodes for each step, with shared weights.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "qtape/core/error.h"
#include "qtape/engine/labels.h"
#include "qtape/onnx/import/operators.h"
#include "qtape/onnx/import/recurrent_cell.h"

namespace qtape {
namespace {

struct RecurrentOperators : OnnxOperators {
  void gru();
  void lstm();
  void rnn();

  enum class Kind : uint8_t { Gru, Lstm, Rnn };
  void unroll(Kind kind, int64_t gates, const std::vector<int>& order);
  void check_attributes(Kind kind, int64_t directions);
  void check_lengths();
  OnnxValue sequence();
  OnnxValue checked(int64_t directions, int64_t gates);
  std::vector<float> rows(int k, int64_t direction, int64_t gates, int64_t width,
                          const std::vector<int>& order);
  RecurrentWeights weights(int64_t direction, int64_t gates, const std::vector<int>& order);
  NodeId start(RecurrentCell& cell, int k, int64_t direction);
  std::string label();
  NodeId joined(const std::vector<NodeId>& states);
  void give_sequence(const std::vector<std::vector<NodeId>>& h);
  void give_last(int k, const std::vector<NodeId>& states);

  int64_t hidden = 0;
  int64_t steps = 0;
  int64_t features = 0;
  int64_t sequences = 1;     // of each sample
  bool batch_first = false;  // attribute layout
};

}  // namespace

/// Checks what changes the computation. Clipping and activations other than the default ones
/// are refused.
void RecurrentOperators::check_attributes(Kind kind, int64_t directions) {
  for (const char* unused : {"activation_alpha", "activation_beta", "clip"}) {
    expect(!node.has(unused), "attribute {} is not supported", unused);
  }
  if (kind == Kind::Lstm) {
    expect_attribute("input_forget", 0);
    expect(!to.has_input(node, 7), "peepholes are not supported");
  }
  const auto given = node.texts("activations");
  std::vector<std::string> defaults = {"Sigmoid", "Tanh"};
  if (kind == Kind::Lstm) defaults.push_back("Tanh");
  for (size_t k = 0; given && k < given->size(); ++k) {
    const std::string& name = (*given)[k];
    const bool relu = kind == Kind::Rnn && name == "Relu" && name == (*given)[0];
    const bool known = kind == Kind::Rnn ? name == "Tanh" && name == (*given)[0]
                                         : name == defaults[k % defaults.size()];
    expect(known || relu, "the activation {} is not supported", printable(name));
  }
  const size_t count = kind == Kind::Rnn ? 1 : defaults.size();
  expect(!given || given->size() == count * static_cast<size_t>(directions),
         "expected {} activations", count * static_cast<size_t>(directions));
}

void RecurrentOperators::check_lengths() {
  if (!to.has_input(node, 4)) return;
  for (const int64_t each : to.integers(node, 4)) {
    require<FormatError>(each == steps,
                         "sequence_lens has {}, only whole sequences of {} steps are supported",
                         onnx_number(each), steps);
  }
}

/// Returns operand 0 with the batch first as stored: [n, steps, features].
OnnxValue RecurrentOperators::sequence() {
  settle();
  OnnxValue a = to.value(node, 0);
  const int batch = batch_first ? 0 : 1;
  require<FormatError>(a.rank() == 3, "expected an input of rank 3, got rank {}", a.rank());
  require<FormatError>(
      a.batch == batch,
      "the batch is on axis {}, expected axis {}: export with batch_first=True, "
      "or with the batch as the dynamic axis",
      a.batch, batch);
  return a.batch == 0 ? to.to_same(a) : a;
}

/// Returns the weights of one direction, [gates hidden, width], with its gates in `order`.
std::vector<float> RecurrentOperators::rows(int k, int64_t direction, int64_t gates,
                                            int64_t width, const std::vector<int>& order) {
  const std::vector<float>& all = to.constant(node, k).floats;
  std::vector<float> found;
  for (const int gate : order) {
    const int64_t first = (direction * gates + gate) * hidden * width;
    found.insert(found.end(), all.begin() + first, all.begin() + first + hidden * width);
  }
  return found;
}

namespace {

void check_shape(const OnnxConstant& found, int k, const std::vector<int64_t>& expected) {
  const auto extents = found.shape.extents();
  require<FormatError>(found.is_float && std::ranges::equal(extents, expected),
                       "input {} must be floats {}, got {}", k, extents_text(expected),
                       to_string(found.shape));
}

}  // namespace

RecurrentWeights RecurrentOperators::weights(int64_t direction, int64_t gates,
                                             const std::vector<int>& order) {
  RecurrentWeights found;
  found.input = rows(1, direction, gates, features, order);
  found.state = rows(2, direction, gates, hidden, order);
  if (!to.has_input(node, 3)) return found;
  // The biases of both products of a direction follow each other.
  found.input_bias = rows(3, 2 * direction, gates, 1, order);
  found.state_bias = rows(3, 2 * direction + 1, gates, 1, order);
  return found;
}

/// Returns the first state of a direction: zeros, constants, or a value.
NodeId RecurrentOperators::start(RecurrentCell& cell, int k, int64_t direction) {
  if (!to.has_input(node, k)) return cell.zeros();
  if (to.is_constant(node.input(k))) {
    const OnnxConstant& found = to.constant(node, k);
    require<FormatError>(
        found.is_float && found.shape.rank() == 3 && found.shape[2] == hidden &&
            direction < found.shape[batch_first ? 1 : 0],
        "input {} does not hold states of {}, got {}", k, hidden, to_string(found.shape));
    const int64_t samples = found.shape[batch_first ? 0 : 1];
    const int64_t directions = found.shape[batch_first ? 1 : 0];
    std::vector<float> first;
    for (int64_t n = 0; n < samples; ++n) {
      const int64_t row = batch_first ? n * directions + direction : direction * samples + n;
      const auto begin = found.floats.begin() + row * hidden;
      const std::vector<float> state(begin, begin + hidden);
      require<FormatError>(n == 0 || state == first, "input {} differs between samples", k);
      first = state;
    }
    if (std::ranges::all_of(first, [](float each) { return each == 0; })) return cell.zeros();
    return cell.constant(node.input(k), first);
  }
  const OnnxValue a = to.value(node, k);
  require<FormatError>(a.rank() == 3 && a.batch == (batch_first ? 0 : 1) &&
                           a.layout == OnnxLayout::Same && a.shape[2] == hidden,
                       "input {} does not hold states of {}, got {}", k, hidden,
                       extents_text(a.shape));
  const NodeId row = to.add(Slice{.axis = 1, .begin = direction, .end = direction + 1}, {a.id});
  return to.add(Reshape{.shape = {-1, hidden}}, {row});
}

/// Returns a label of which no node begins a layer yet.
std::string RecurrentOperators::label() {
  std::string wanted = to.module_label(node);
  if (wanted.empty()) {
    for (const char c : node.type()) wanted += static_cast<char>(std::tolower(c));
  }
  return unused_label(to.graph(), wanted, ".input");
}

/// Joins [n, hidden] along the features; a Concat takes up to 64.
NodeId RecurrentOperators::joined(const std::vector<NodeId>& states) {
  constexpr size_t most = 64;
  if (states.size() == 1) return states[0];
  if (states.size() <= most) {
    return to.add(Concat{.axis = 1, .count = static_cast<int>(states.size())}, states);
  }
  std::vector<NodeId> parts;
  for (size_t k = 0; k < states.size(); k += most) {
    const auto end = std::min(states.size(), k + most);
    parts.push_back(joined({states.begin() + static_cast<std::ptrdiff_t>(k),
                            states.begin() + static_cast<std::ptrdiff_t>(end)}));
  }
  return joined(parts);
}

/// Gives output 0, [steps, directions, n, hidden].
void RecurrentOperators::give_sequence(const std::vector<std::vector<NodeId>>& h) {
  if (!to.is_needed(node.output(0))) return;
  std::vector<NodeId> all;
  for (size_t step = 0; step < h[0].size(); ++step) {
    for (const auto& direction : h) all.push_back(direction[step]);
  }
  const auto directions = std::ssize(h);
  OnnxValue y{.id = to.add(Reshape{.shape = {-1, steps, directions, hidden}}, {joined(all)}),
              .shape = {steps, directions, sequences, hidden}};
  y.batch = 2;
  if (batch_first) y.shape = {sequences, steps, directions, hidden}, y.batch = 0;
  give(std::move(y));
}

/// Gives output k, [directions, n, hidden].
void RecurrentOperators::give_last(int k, const std::vector<NodeId>& states) {
  if (k >= node.outputs() || !to.is_needed(node.output(k))) return;
  const auto directions = std::ssize(states);
  OnnxValue y{.id = to.add(Reshape{.shape = {-1, directions, hidden}}, {joined(states)}),
              .shape = {directions, sequences, hidden}};
  y.batch = 1;
  if (batch_first) y.shape = {sequences, directions, hidden}, y.batch = 0;
  give(std::move(y), k);
}

/// Checks the weights, and returns operand 0 as stored: [n, steps, features].
OnnxValue RecurrentOperators::checked(int64_t directions, int64_t gates) {
  expect_weights(1, 3, "weights of rank 3");
  expect_weights(2, 3, "weights of rank 3");
  if (to.has_input(node, 3)) expect_weights(3, 2, "floats of rank 2");
  const OnnxValue x = sequence();
  if (hidden == 0) hidden = to.constant(node, 2).shape[2];
  require<FormatError>(hidden >= 1 && hidden <= Shape::max_elements / gates / 2,
                       "hidden_size {} is not valid", hidden);
  steps = x.shape[batch_first ? 1 : 0];
  features = x.shape[2];
  sequences = x.shape[static_cast<size_t>(x.batch)];
  check_lengths();
  check_shape(to.constant(node, 1), 1, {directions, gates * hidden, features});
  check_shape(to.constant(node, 2), 2, {directions, gates * hidden, hidden});
  if (to.has_input(node, 3)) {
    check_shape(to.constant(node, 3), 3, {directions, 2 * gates * hidden});
  }
  return x;
}

void RecurrentOperators::unroll(Kind kind, int64_t gates, const std::vector<int>& order) {
  const std::string direction = node.text("direction", "forward");
  const bool both = direction == "bidirectional";
  expect(both || direction == "forward" || direction == "reverse",
         "the direction {} is not supported", printable(direction));
  const int64_t directions = both ? 2 : 1;
  check_attributes(kind, directions);
  batch_first = node.integer("layout", 0) != 0;
  hidden = node.integer("hidden_size", 0);
  const bool after = node.integer("linear_before_reset", 0) != 0;
  const auto activations = node.texts("activations").value_or(std::vector<std::string>{});
  const bool relu = !activations.empty() && activations[0] == "Relu";
  const NodeId x = checked(directions, gates).id;
  const std::string name = label();
  std::vector<std::vector<NodeId>> h;
  std::vector<NodeId> last_h, last_c;
  for (int64_t d = 0; d < directions; ++d) {
    const bool reverse = d == 1 || direction == "reverse";
    RecurrentCell cell(
        to, x, {hidden, gates, steps, reverse, after, relu, d == 1 ? name + ".reverse" : name});
    cell.add_weights(weights(d, gates, order));
    const NodeId first = start(cell, 5, d);
    if (kind == Kind::Gru) h.push_back(cell.gru(first));
    if (kind == Kind::Rnn) h.push_back(cell.rnn(first));
    if (kind == Kind::Lstm) {
      auto [states, cells] = cell.lstm(first, start(cell, 6, d));
      last_c.push_back(reverse ? cells.front() : cells.back());
      h.push_back(std::move(states));
    }
    last_h.push_back(reverse ? h.back().front() : h.back().back());
  }
  give_sequence(h);
  give_last(1, last_h);
  if (kind == Kind::Lstm) give_last(2, last_c);
}

// ONNX stacks gates as z, r, h and i, o, f, c; here they follow PyTorch: r, z, m and i, f, g,
// o.
void RecurrentOperators::gru() { unroll(Kind::Gru, 3, {1, 0, 2}); }
void RecurrentOperators::lstm() { unroll(Kind::Lstm, 4, {0, 2, 3, 1}); }
void RecurrentOperators::rnn() { unroll(Kind::Rnn, 1, {0}); }

namespace {

constexpr OnnxOperator recurrent_rows[] = {{"GRU", convert<&RecurrentOperators::gru>},
                                           {"LSTM", convert<&RecurrentOperators::lstm>},
                                           {"RNN", convert<&RecurrentOperators::rnn>}};

}  // namespace

std::span<const OnnxOperator> recurrent_conversions() { return recurrent_rows; }

}  // namespace qtape
