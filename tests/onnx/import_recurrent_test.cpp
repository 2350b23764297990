// Import of GRU, LSTM and RNN, compared with their formulas, and of values whose batch is not
// the first axis.
#include <doctest/doctest.h>

#include <cmath>

#include "qtape/core/random.h"
#include "qtape/tests/onnx/onnx_model.h"

using namespace qtape;
using namespace qtape::test::onnx_models;

namespace {

constexpr int64_t samples = 2, steps = 3, features = 2, hidden = 3;

Numbers drawn(uint64_t seed, int64_t n) {
  const Random random(seed, 1);
  Numbers result;
  for (int64_t i = 0; i < n; ++i) {
    result.push_back(static_cast<float>(random.uniform(static_cast<uint64_t>(i)) * 2 - 1));
  }
  return result;
}

struct Case {
  std::string type;
  int64_t gates = 1;
  std::string direction = "forward";
  int64_t layout = 0;
  int64_t reset_after = 0;
  bool biased = true;
  bool started = false;

  int64_t directions() const { return direction == "bidirectional" ? 2 : 1; }
};

/// Weights of one case, and the states by formula: [direction][step][sample][unit].
struct Expected {
  const Case& c;
  Numbers x, w, r, b, h0;
  using States = std::vector<std::vector<std::vector<std::vector<double>>>>;
  States h, cell;

  explicit Expected(const Case& each) : c(each) {
    const int64_t d = c.directions(), rows = c.gates * hidden;
    x = drawn(1, samples * steps * features);
    w = drawn(2, d * rows * features);
    r = drawn(3, d * rows * hidden);
    b = c.biased ? drawn(4, d * 2 * rows) : Numbers(static_cast<size_t>(d * 2 * rows));
    h0 = c.started ? drawn(5, d * hidden) : Numbers(static_cast<size_t>(d * hidden));
    for (int64_t k = 0; k < d; ++k) run(k);
  }

  /// Returns x W + b or h R + b of a unit of a gate.
  double product(const Numbers& weights, int64_t d, int64_t gate, int64_t unit,
                 const std::vector<double>& from, int64_t part) const {
    const int64_t row = (d * c.gates + gate) * hidden + unit;
    double sum =
        double{b[static_cast<size_t>(((d * 2 + part) * c.gates + gate) * hidden + unit)]};
    for (size_t k = 0; k < from.size(); ++k) {
      sum += from[k] * double{weights[static_cast<size_t>(row) * from.size() + k]};
    }
    return sum;
  }

  void step(int64_t d, const std::vector<double>& in, std::vector<double>& state,
            std::vector<double>& memory) const {
    const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
    const std::vector<double> before = state;
    const auto both = [&](int64_t gate, int64_t unit) {
      return product(w, d, gate, unit, in, 0) + product(r, d, gate, unit, before, 1);
    };
    std::vector<double> reset;
    for (int64_t u = 0; u < hidden && c.type == "GRU"; ++u) {
      reset.push_back(sigmoid(both(1, u)) * before[static_cast<size_t>(u)]);
    }
    for (int64_t u = 0; u < hidden; ++u) {
      const auto i = static_cast<size_t>(u);
      if (c.type == "RNN") state[i] = std::tanh(both(0, u));
      if (c.type == "GRU") {
        const double z = sigmoid(both(0, u));
        const double of_h = c.reset_after != 0
                                ? sigmoid(both(1, u)) * product(r, d, 2, u, before, 1)
                                : product(r, d, 2, u, reset, 1);
        state[i] = (1 - z) * std::tanh(product(w, d, 2, u, in, 0) + of_h) + z * before[i];
      }
      if (c.type == "LSTM") {  // gates i, o, f, c
        memory[i] =
            sigmoid(both(2, u)) * memory[i] + sigmoid(both(0, u)) * std::tanh(both(3, u));
        state[i] = sigmoid(both(1, u)) * std::tanh(memory[i]);
      }
    }
  }

  void run(int64_t d) {
    h.emplace_back(steps);
    cell.emplace_back(steps);
    const bool reverse = d == 1 || c.direction == "reverse";
    for (int64_t n = 0; n < samples; ++n) {
      const auto first = h0.begin() + d * hidden;
      std::vector<double> state(first, first + hidden), memory(static_cast<size_t>(hidden));
      for (int64_t k = 0; k < steps; ++k) {
        const int64_t t = reverse ? steps - 1 - k : k;
        const auto at = x.begin() + (n * steps + t) * features;
        step(d, {at, at + features}, state, memory);
        h.back()[static_cast<size_t>(t)].push_back(state);
        cell.back()[static_cast<size_t>(t)].push_back(memory);
      }
    }
  }

  /// Returns [n, steps, directions, hidden], as outputs are stored.
  std::vector<double> sequence() const {
    std::vector<double> y;
    for (size_t n = 0; n < samples; ++n) {
      for (size_t t = 0; t < steps; ++t) {
        for (const auto& direction : h) {
          y.insert(y.end(), direction[t][n].begin(), direction[t][n].end());
        }
      }
    }
    return y;
  }
  /// Returns the last states, [n, directions, hidden].
  std::vector<double> last(const States& states) const {
    std::vector<double> y;
    for (size_t n = 0; n < samples; ++n) {
      for (size_t d = 0; d < states.size(); ++d) {
        const bool reverse = d == 1 || c.direction == "reverse";
        const auto& state = states[d][reverse ? 0 : static_cast<size_t>(steps) - 1][n];
        y.insert(y.end(), state.begin(), state.end());
      }
    }
    return y;
  }
};

/// Returns the operator over x [n, steps, features], transposed around it if it takes steps
/// first.
OnnxModel model_of(const Case& c, const Expected& e) {
  const int64_t d = c.directions();
  OnnxModel model({-1, steps, features});
  model.floats("w", {d, c.gates * hidden, features}, e.w)
      .floats("r", {d, c.gates * hidden, hidden}, e.r)
      .floats("b", {d, 2 * c.gates * hidden}, e.b);
  if (c.layout == 0) model.transposed("x", {1, 0, 2}, "s");
  OnnxInputs inputs = {c.layout == 0 ? "s" : "x", "w", "r", c.biased ? "b" : ""};
  if (c.started) {
    const Extents shape = c.layout == 0 ? Extents{d, 1, hidden} : Extents{1, d, hidden};
    model.floats("h0", shape, e.h0);
    inputs.insert(inputs.end(), {"", "h0"});
  }
  std::vector<std::string> outputs = {"y", "last"};
  if (c.type == "LSTM") outputs.push_back("cell");
  model.node(c.type, inputs, outputs).with("hidden_size", hidden);
  model.with("direction", c.direction.c_str());
  if (c.layout != 0) model.with("layout", c.layout);
  if (c.reset_after != 0) model.with("linear_before_reset", c.reset_after);
  for (size_t k = 1; k < outputs.size(); ++k) model.output(outputs[k].c_str());
  return model;
}

}  // namespace

TEST_CASE("onnx: GRU, LSTM and RNN compute their formulas") {
  std::vector<Case> cases;
  for (const char* direction : {"forward", "reverse", "bidirectional"}) {
    for (const int64_t layout : {0, 1}) {
      cases.push_back({"RNN", 1, direction, layout});
      cases.push_back({"LSTM", 4, direction, layout});
      for (const int64_t after : {0, 1}) cases.push_back({"GRU", 3, direction, layout, after});
    }
  }
  cases.push_back({.type = "GRU", .gates = 3, .biased = false, .started = true});
  cases.push_back({.type = "LSTM", .gates = 4, .direction = "bidirectional", .started = true});
  for (const Case& each : cases) {
    CAPTURE(each.type);
    CAPTURE(each.direction);
    CAPTURE(each.layout);
    const Expected expected(each);
    const OnnxModel model = model_of(each, expected);
    check_close(answer(model, expected.x, samples, 0), expected.sequence());
    check_close(answer(model, expected.x, samples, 1), expected.last(expected.h));
    if (each.type != "LSTM") continue;
    check_close(answer(model, expected.x, samples, 2), expected.last(expected.cell));
  }
}

TEST_CASE("onnx: steps first or batch first, the last step is a node of its own") {
  const Case gru{.type = "GRU", .gates = 3, .reset_after = 1};
  const Expected expected(gru);
  const auto net = [&](bool batch_first, bool fixed) {
    OnnxModel model(batch_first ? Extents{-1, steps, features}
                                : Extents{steps, fixed ? 1 : -1, features});
    model.floats("w", {1, 9, features}, expected.w)
        .floats("r", {1, 9, hidden}, expected.r)
        .floats("b", {1, 18}, expected.b)
        .integers("one", {1});
    if (batch_first) model.transposed("x", {1, 0, 2}, "s");
    model.node("GRU", {batch_first ? "s" : "x", "w", "r", "b"}, {"all"})
        .with("hidden_size", hidden)
        .with("linear_before_reset", 1)
        .node("Squeeze", {"all", "one"}, {"states"});
    if (batch_first) {
      model.transposed("states", {1, 0, 2}, "rows");
    }
    const onnx::TensorProto end = codes({}, {-1}, onnx::TensorProto::INT64);
    model.node("Gather", {batch_first ? "rows" : "states", end})
        .with("axis", batch_first ? 1 : 0);
    return model.imported();
  };
  for (const auto& [first, fixed] : {std::pair{true, false}, {false, false}, {false, true}}) {
    const SavedModel model = net(first, fixed);
    check_close(answer(model, expected.x, samples), expected.last(expected.h));
    CHECK(number_of<Transpose>(model) + number_of<Concat>(model) == 0);
    CHECK(model.parameters.get("gru.input.weight").type.shape == Shape{9, features});
  }
}

TEST_CASE("onnx: values with steps first pass through layers, and keep their batch") {
  const Numbers x = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const OnnxModel model = OnnxModel({-1, 2, 3})
                              .integers("two", {0, -1})
                              .transposed("x", {1, 0, 2}, "s")
                              .node("MatMul", {"s", floats({3, 2}, {1, 0, 0, 1, 1, 1})}, {"m"})
                              .node("Add", {floats({2}, {0.5f, -20}), "m"}, {"a"})
                              .node("Relu", {"a"}, {"r"})
                              .transposed("r", {1, 0, 2}, "t")
                              .node("Flatten", {"t"});
  check_close(answer(model, x, 2), {4.5, 0, 10.5, 0, 16.5, 0, 22.5, 3});
  std::vector<double> rows;
  for (int row = 0; row < 4; ++row)
    rows.insert(rows.end(), {0.09003057, 0.24472847, 0.66524096});
  check_close(answer(OnnxModel({-1, 2, 3})
                         .transposed("x", {1, 0, 2}, "s")
                         .node("Softmax", {"s"}, {"p"})
                         .transposed("p", {1, 0, 2}, "t")
                         .node("Flatten", {"t"}),
                     x, 2),
              rows);
  // Optimized exports leave the extent of the batch open.
  const Numbers sixteen = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  CHECK(answer(OnnxModel({-1, 2, 4})
                   .integers("halves", {2, -1, 2, 2})
                   .integers("whole", {2, -1, 4})
                   .transposed("x", {1, 0, 2}, "s")
                   .node("Reshape", {"s", "halves"}, {"h"})
                   .node("Reshape", {"h", "whole"}, {"w"})
                   .transposed("w", {1, 0, 2}, "t")
                   .node("Flatten", {"t"}),
               sixteen, 2) == sixteen);
  refused(OnnxModel({-1, 2, 3})
              .transposed("x", {1, 0, 2}, "s")
              .node("Softmax", {"s"})
              .with("axis", 0),
          "node 'the Softmax' (Softmax): input 0 has its batch on axis 1, expected axis 0");
}

TEST_CASE("onnx: recurrent operators that compute something else are refused") {
  const Case lstm{.type = "LSTM", .gates = 4};
  const OnnxModel valid = model_of(lstm, Expected(lstm));
  const std::string place = "node 'the LSTM' (LSTM): ";
  refused(OnnxModel(valid).with("clip", 3.0f), place + "attribute clip is not supported");
  refused(OnnxModel(valid).with("input_forget", 1),
          place + "attribute input_forget is 1, only 0 is supported");
  OnnxModel relu = valid;
  auto& attribute = *relu.last().add_attribute();
  attribute.set_name("activations");
  attribute.set_type(onnx::AttributeProto::STRINGS);
  for (const char* each : {"Sigmoid", "Relu"}) attribute.add_strings(each);
  refused(relu, place + "the activation Relu is not supported, expected 3 activations");
  refused(OnnxModel(valid).input(0, "x"),
          place +
              "the batch is on axis 0, expected axis 1: export with batch_first=True, or with "
              "the batch as the dynamic axis");
  refused(OnnxModel(valid).input(1, "r"),
          place + "input 1 must be floats [1, 12, 2], got [1, 12, 3]");
  refused(OnnxModel(valid).integers("n", {3, 2}).input(4, "n"),
          place + "sequence_lens has 2, only whole sequences of 3 steps are supported");
}
