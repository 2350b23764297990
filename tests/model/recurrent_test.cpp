// gru and lstm compared with their formulas in plain loops, and in integers.
#include "qtape/model/recurrent.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "qtape/engine/quantizers.h"
#include "qtape/engine/tape.h"
#include "qtape/integer/rules/quantizer_of.h"
#include "qtape/model/fit.h"
#include "qtape/model/passes/cell_states.h"
#include "qtape/model/recipe.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/op_run.h"
#include "qtape/tests/support/small_nets.h"

using namespace qtape;
using test::error_text;
using test::Values;

namespace {

constexpr int64_t batch = 3;
constexpr int64_t steps = 5;
constexpr int64_t features = 4;
constexpr int64_t hidden = 6;

struct Steps {
  Graph graph;
  std::vector<NodeId> h;
  std::vector<NodeId> c;  // for LSTM
};

Steps make(bool is_lstm, const RecurrentOptions& options, DType dtype) {
  Steps net;
  const auto input = [&](const Shape& shape, const char* label) {
    return net.graph.add(Input{.dtype = dtype, .shape = shape}, {}, label);
  };
  const NodeId x = input({batch, steps, features}, "x");
  const NodeId h = input({batch, hidden}, "h");
  if (is_lstm) {
    for (const LstmState& each :
         lstm(net.graph, x, {h, input({batch, hidden}, "c")}, options)) {
      net.h.push_back(each.h);
      net.c.push_back(each.c);
    }
  } else {
    net.h = gru(net.graph, x, h, options);
  }
  std::vector<NodeId> outputs = {net.h.back()};
  outputs.insert(outputs.end(), net.h.begin(), net.h.end() - 1);
  outputs.insert(outputs.end(), net.c.begin(), net.c.end());
  net.graph.set_outputs(outputs);
  return net;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// Returns the input of gate number `gate`; the weights of all gates are stacked.
double affine(const Parameters& parameters, const std::string& label, const double* x,
              int64_t gate, int64_t unit) {
  const auto w = parameters.at(label + ".weight").values<double>();
  const auto b = parameters.at(label + ".bias").values<double>();
  const auto row = static_cast<size_t>(gate * hidden + unit);
  const size_t n = w.size() / b.size();
  double sum = b[row];
  for (size_t k = 0; k < n; ++k) sum += w[row * n + k] * x[k];
  return sum;
}

}  // namespace

TEST_CASE("recurrent: states are those of the formulas, after each step") {
  for (bool is_lstm : {false, true}) {
    CAPTURE(is_lstm);
    const Steps net = make(is_lstm, {.hidden = hidden, .label = "cell"}, DType::F64);
    Parameters parameters(net.graph, 4);
    for (const char* name : {"cell.input.bias", "cell.state.bias"}) {
      const auto bias = parameters.at(name).values<double>();
      std::ranges::copy(test::random_values(static_cast<int64_t>(bias.size()), 7),
                        bias.begin());
    }
    Tape tape(net.graph, parameters, {});
    for (const char* name : {"x", "h", "c"}) {
      if (!net.graph.find(name)) continue;
      const auto values = tape.input<double>(name);
      std::ranges::copy(test::random_values(static_cast<int64_t>(values.size()), 11),
                        values.begin());
    }
    tape.forward(mode::float_eval);
    for (int64_t n = 0; n < batch; ++n) {
      const auto row = [&](const char* name) {
        const auto values = tape.input<double>(name).subspan(static_cast<size_t>(n * hidden),
                                                             static_cast<size_t>(hidden));
        return test::copied(values);
      };
      Values h = row("h");
      Values c = is_lstm ? row("c") : Values{};
      for (int64_t step = 0; step < steps; ++step) {
        const double* x = tape.input<double>("x").data() + (n * steps + step) * features;
        const Values before = h;
        for (int64_t u = 0; u < hidden; ++u) {
          const auto of_x = [&](int64_t gate) {
            return affine(parameters, "cell.input", x, gate, u);
          };
          const auto of_h = [&](int64_t gate) {
            return affine(parameters, "cell.state", before.data(), gate, u);
          };
          const auto i = static_cast<size_t>(u);
          if (is_lstm) {
            const double in = sigmoid(of_x(0) + of_h(0));
            const double forget = sigmoid(of_x(1) + of_h(1));
            const double made = std::tanh(of_x(2) + of_h(2));
            const double out = sigmoid(of_x(3) + of_h(3));
            c[i] = forget * c[i] + in * made;
            h[i] = out * std::tanh(c[i]);
          } else {
            const double reset = sigmoid(of_x(0) + of_h(0));
            const double update = sigmoid(of_x(1) + of_h(1));
            const double made = std::tanh(of_x(2) + reset * of_h(2));
            h[i] = (1 - update) * made + update * before[i];
          }
        }
        const auto agrees = [&](const std::vector<NodeId>& nodes, const Values& expected) {
          const auto got = tape.value<double>(nodes[static_cast<size_t>(step)]);
          for (int64_t u = 0; u < hidden; ++u) {
            CHECK(std::fabs(got[static_cast<size_t>(n * hidden + u)] -
                            expected[static_cast<size_t>(u)]) < 1e-12);
          }
        };
        agrees(net.h, h);
        if (is_lstm) agrees(net.c, c);
      }
    }
  }
}

TEST_CASE("recurrent: quantized layers are integers throughout") {
  const FakeQuantize activation{.scale_mode = EMA{}};
  const FakeQuantize fine{.bits = 16, .scale_mode = EMA{}};
  for (bool is_lstm : {false, true}) {
    for (const FakeQuantize& quantizer : {activation, fine}) {
      CAPTURE(is_lstm);
      const Steps net = make(is_lstm,
                             {.hidden = hidden,
                              .weight_quantizer = FakeQuantize{.axis = 0},
                              .activation_quantizer = quantizer,
                              .label = "cell"},
                             DType::F32);
      CHECK(net.graph.find("cell.input.bias.quantized"));
      CHECK(net.graph.find("cell.4"));
      Parameters parameters(net.graph, 4);
      test::settle(net.graph, parameters, 9);
      CHECK(test::disagreement(net.graph, parameters, 9, test::Effort::Some) == "");
    }
  }
}

TEST_CASE("recurrent: layers from zeros are those whose state is fed zeros") {
  for (bool is_lstm : {false, true}) {
    CAPTURE(is_lstm);
    const RecurrentOptions options{.hidden = hidden, .label = "cell"};
    const Steps fed = make(is_lstm, options, DType::F64);
    Graph graph;
    const NodeId x =
        graph.add(Input{.dtype = DType::F64, .shape = {batch, steps, features}}, {}, "x");
    const NodeId last =
        is_lstm ? lstm(graph, x, options).back().h : gru(graph, x, options).back();
    graph.set_outputs({last});
    Parameters parameters(graph, 4);
    const auto answer = [&](const Graph& of, NodeId output) {
      Tape tape(of, parameters, {});
      std::ranges::copy(test::random_values(batch * steps * features, 11),
                        tape.input<double>("x").begin());
      tape.forward(mode::float_eval);
      return test::copied(tape.value<double>(output));
    };
    CHECK(answer(graph, last) == answer(fed.graph, fed.h.back()));
  }
}

namespace {

/// Sequences whose class is the sign of their sum.
data::Dataset sequences() {
  std::vector<float> x = {};
  std::vector<int32_t> labels;
  const Values numbers = test::random_values(200 * steps * features, 3);
  for (size_t i = 0; i < 200; ++i) {
    const auto of_sample = std::span(numbers).subspan(i * steps * features, steps * features);
    double sum = 0;
    for (double v : of_sample) sum += v;
    x.insert(x.end(), of_sample.begin(), of_sample.end());
    labels.push_back(sum > 0 ? 1 : 0);
  }
  data::Dataset set;
  set.add("x", Tensor::of<float>({200, steps, features}, x));
  set.add_target("labels", Tensor::of<int32_t>({200}, labels));
  return set;
}

/// Checks a network that is trained on `set`: it learns, and nothing differs in integers.
void check_trained(const Value& last, const Layer& layer, const data::Dataset& set) {
  Model model(linear(last, 2, layer), loss::cross_entropy);
  fit(model, set, {.epochs = 6, .batch = 20, .learning_rate = 0.02, .progress = false});
  CHECK(accuracy(model, set) > 70);
  for (const Requantization rounding :
       {Requantization::FloatMultiply, Requantization::SingleRounding}) {
    CHECK(test::mismatch(verify(model, set, rounding)) == "");
  }
}

/// Returns the number of codes of a quantizer.
int64_t codes_of(const Graph& graph, NodeId quantizer) {
  const CodeLimits limits = grid_of(graph, quantizer).limits;
  return int64_t{limits.q_max} - limits.q_min + 1;
}

}  // namespace

TEST_CASE("recurrent: from zeros, made or fed, training ends in integers") {
  data::Dataset set = sequences();
  const std::vector<float> zeros(200 * hidden);
  data::Dataset fed = set;
  fed.add("h", Tensor::of<float>({200, hidden}, zeros));
  fed.add("c", Tensor::of<float>({200, hidden}, zeros));
  Layer scales = quantize::layer();
  scales.activations = FakeQuantize{.scale_mode = EMA{}};
  Layer learned{.weights = FakeQuantizeLSQ{.axis = 0}, .activations = FakeQuantizeLSQ{}};
  for (const Layer& layer : {quantize::layer(), scales, learned}) {
    for (const bool is_lstm : {false, true}) {
      CAPTURE(is_lstm);
      Network net;
      const Value x = net.input("x", {steps, features});
      const Value made =
          is_lstm ? lstm(x, hidden, layer).back().h : gru(x, hidden, layer).back();
      check_trained(made, layer, set);
      Network other;
      const Value y = other.input("x", {steps, features});
      const Value h = other.input("h", {hidden});
      const Value from = is_lstm ? lstm(y, {h, other.input("c", {hidden})}, layer).back().h
                                 : gru(y, h, layer).back();
      check_trained(from, layer, fed);
    }
  }
}

TEST_CASE("recurrent: a float model from zeros is quantized by a recipe") {
  const data::Dataset set = sequences();
  for (const bool is_lstm : {false, true}) {
    Network net;
    const Value x = net.input("x", {steps, features});
    const Value last = is_lstm ? lstm(x, hidden).back().h : gru(x, hidden).back();
    Model model(linear(last, 2), loss::cross_entropy);
    fit(model, set, {.epochs = 6, .batch = 20, .learning_rate = 0.02, .progress = false});
    const Model fixed = quantized(model, QuantizationRecipe{}, set);
    CHECK(accuracy(fixed, set) >= accuracy(model, set) - 2);
    CHECK(test::mismatch(verify(fixed, set, Requantization::SingleRounding)) == "");
  }
}

TEST_CASE("recurrent: cell states and their products have bits of their own") {
  const data::Dataset set = sequences();
  Network net;
  const Value x = net.input("x", {steps, features});
  Model model(linear(lstm(x, hidden).back().h, 2), loss::cross_entropy);
  fit(model, set, {.epochs = 6, .batch = 20, .learning_rate = 0.02, .progress = false});
  const Model fixed = quantized(model, {.cell_bits = 16}, set);
  const Graph& graph = fixed.graph();
  int wide = 0;
  for (const NodeId id : quantizers(graph)) {
    wide += codes_of(graph, id) == 65536 ? 1 : 0;
  }
  CHECK(wide == 3 * steps);
  CHECK(has_cell_states(model.graph()));
  CHECK(has_cell_states(graph));
  for (const Node& node : graph.nodes()) {
    if (!std::holds_alternative<Tanh>(node.op)) continue;
    const auto codes = preceding_quantizer(graph, node.operands[0]);
    REQUIRE(codes);
    CHECK(codes_of(graph, *codes) == 256);
  }
  CHECK(test::mismatch(verify(fixed, set, Requantization::SingleRounding)) == "");
}

TEST_CASE("recurrent: bits of cell states without such states are refused") {
  Network net;
  const Model model(linear(gru(net.input("x", {steps, features}), hidden).back(), 2));
  CHECK(error_text<GraphError>([&] { (void)quantized(model.graph(), {.cell_bits = 16}); }) ==
        "cell bits: no cell state of an LSTM layer is without a quantizer");
}

TEST_CASE("recurrent: what does not fit is refused") {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {3, 5, 4}}, {}, "x");
  const NodeId h = graph.add(Input{.shape = {3, 6}}, {}, "h");
  CHECK(error_text<GraphError>([&] { gru(graph, x, h, {.label = "a"}); }) ==
        "'a': hidden must be at least 1, got 0");
  CHECK(error_text<GraphError>([&] { gru(graph, h, h, {.hidden = 6, .label = "b"}); }) ==
        "'b': x must be [n, steps, c], got f32[3, 6]");
  CHECK(error_text<GraphError>([&] { gru(graph, x, h, {.hidden = 7, .label = "c"}); }) ==
        "'c': state must be [n, 7], got f32[3, 6]");
  CHECK(error_text<GraphError>([&] {
          lstm(graph, x, {h, x}, {.hidden = 6, .label = "d"});
        }) == "'d': cell must be [n, 6], got f32[3, 5, 4]");
}
