// gru and lstm against their formulas in plain loops, and in integers.
#include "qtape/model/recurrent.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "qtape/engine/tape.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/op_run.h"

using namespace qtape;
using test::error_text;
using test::Values;

namespace {

constexpr int64_t batch = 3;
constexpr int64_t steps = 5;
constexpr int64_t features = 4;
constexpr int64_t hidden = 6;

struct Net {
  Graph graph;
  std::vector<NodeId> h;
  std::vector<NodeId> c;  // of an LSTM
};

Net make(bool is_lstm, const RecurrentOptions& options, DType dtype) {
  Net net;
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

/// What gate number `gate` gets: weights of all gates lie one below the other.
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
    const Net net = make(is_lstm, {.hidden = hidden, .label = "cell"}, DType::F64);
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
        return Values(values.begin(), values.end());
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
      const Net net = make(is_lstm,
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
