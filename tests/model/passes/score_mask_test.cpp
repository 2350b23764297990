// Masks of scores in rewritten layers.
#include "qtape/model/passes/score_mask.h"

#include <doctest/doctest.h>

#include <limits>

#include "qtape/model/passes/float_parts.h"
#include "qtape/model/passes/insert_quantizers.h"
#include "qtape/model/passes/rewrite_layers.h"
#include "qtape/model/recipe.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/small_nets.h"

using namespace qtape;

namespace {

std::vector<float> answers(const Graph& graph, const Parameters& parameters) {
  Tape tape(graph, parameters, {});
  test::fill_uniform(tape.input<float>("x"), Random(3, 2), -2, 2);
  tape.forward(mode::eval);
  return test::copied(tape.value<float>(graph.outputs()[0]));
}

/// Both graphs have equal answers but for rounding.
void check_close(const Graph& graph, const Parameters& parameters, const SavedModel& other) {
  const std::vector<float> wanted = answers(graph, parameters);
  const std::vector<float> got = answers(other.graph, other.parameters);
  REQUIRE(wanted.size() == got.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CHECK(double{got[i]} == doctest::Approx(double{wanted[i]}).epsilon(1e-4));
  }
}

/// All levels agree on the network with quantizers.
void check_integers(const Graph& graph, int bits) {
  CHECK(float_parts(graph).empty());
  const Graph quantized = insert_quantizers(graph, calibrated_quantizers(bits, bits));
  CHECK(test::disagreement(test::Settled(quantized, 4), 4, test::Effort::Some) == "");
}

constexpr float inf = std::numeric_limits<float>::infinity();

/// A mask that is added to a tanh of x [2, 3, 4] before a Softmax along an axis.
struct MaskRow {
  std::vector<float> values;
  Shape shape;
  int axis = -1;
  bool first = false;     ///< operand of the Add
  bool reshaped = false;  ///< the Softmax reads the sum as [6, 4]
};

Graph masked_softmax(const MaskRow& row) {
  test::Net net({2, 3, 4});
  const NodeId h = net.add(Tanh{}, {net.x});
  const Tensor values = Tensor::of<float>(row.shape, row.values);
  const NodeId m = net.add(Constant{.value = values}, {}, "mask");
  NodeId sum = net.add(Add{}, row.first ? std::vector{m, h} : std::vector{h, m});
  if (row.reshaped) sum = net.add(Reshape{.shape = {-1, 1, 4}}, {sum});
  const NodeId shares = net.add(Softmax{.axis = row.axis}, {sum}, "shares");
  const NodeId back = net.add(Reshape{.shape = {-1, 3, 4}}, {shares});
  net.graph.set_outputs({linear(net.graph, back, {.out = 2, .label = "fc"})});
  return net.graph;
}

}  // namespace

TEST_CASE("score mask: masks of scores leave elements out, in integers too") {
  const std::vector<float> causal = {0, -inf, -inf, 0, 0, 0, -inf, -inf, -inf, -inf, 0, -inf};
  const std::vector<float> distances = {0,    -inf, -inf, -.5f, -1,   0,
                                        -inf, -inf, -inf, -inf, .25f, -inf};
  const std::vector<MaskRow> rows = {
      {causal, {3, 4}},
      {causal, {3, 4}, -1, false, true},
      {distances, {3, 4}, -1, true, true},
      {distances, {3, 4}, 2},
      {{0, -1e9f, 0, -1e9f}, {4}, -1, true},
      {{0, 0, -1e4f, 0}, {1, 1, 4}},
      {{0, 0, -100, 0}, {4}},
      {{0, 0, 0, -inf, 0, 0, -inf, -inf, 0, 0, -inf, 0}, {1, 3, 4}, 1},
      {{-inf, 0, -2}, {3, 1}, -2, true}};
  for (const MaskRow& row : rows) {
    CAPTURE(to_string(row.shape));
    CAPTURE(row.axis);
    const Graph graph = masked_softmax(row);
    const Parameters parameters(graph, 1);
    const RewrittenLayers made = rewrite_layers(graph, parameters);
    CHECK(made.refused.empty());
    REQUIRE(made.model);
    CHECK(made.model->graph.find("shares.masked"));
    CHECK(!made.model->graph.find("mask"));
    check_close(graph, parameters, *made.model);
    for (const int bits : {4, 8}) check_integers(made.model->graph, bits);
  }
}

TEST_CASE("score mask: a mask before a LogSoftmax stays a summand") {
  test::Net net({2, 3, 4});
  const std::vector<float> mask = {0, -1e4f, 0, 0};
  const NodeId m = net.add(Constant{.value = Tensor::of<float>({4}, mask)}, {}, "mask");
  const NodeId sum = net.add(Add{}, {net.add(Tanh{}, {net.x}), m});
  const NodeId logs = net.add(LogSoftmax{.axis = -1}, {sum}, "logs");
  net.graph.set_outputs({linear(net.graph, logs, {.out = 2, .label = "fc"})});
  const Parameters parameters(net.graph, 1);
  const RewrittenLayers made = rewrite_layers(net.graph, parameters);
  REQUIRE(made.model);
  CHECK(!made.model->graph.find("logs.masked"));
  check_close(net.graph, parameters, *made.model);
}

TEST_CASE("score mask: summands that are no masks stay, infinite ones are refused") {
  const std::vector<std::pair<MaskRow, std::string>> rows = {
      {{{0, -99, 0, 0}, {4}}, ""},
      {{{0, -100, 1, 0}, {4}}, ""},
      {{{0, -1e9f, -5000, 0}, {4}}, ""},
      {{{-inf, -inf, -inf, -inf}, {4}},
       "infinite values have no codes: a mask has biases within -1,000 and 1,000 beside values "
       "of at most -10,000"},
      {{{0, inf, -inf, 0}, {4}},
       "infinite values have no codes: a mask has biases within -1,000 and 1,000 beside values "
       "of at most -10,000"},
      {{{0, 0, 0, 0, -1e9f, -1e9f, -1e9f, -1e9f, 0, 0, 0, 0}, {3, 4}},
       "no mask in integers: it leaves out all elements of a row"},
      {{{-inf, 0, 0}, {3, 1}},
       "infinite values have no codes: it leaves out all elements of a row"}};
  for (const auto& [row, refusal] : rows) {
    const Graph graph = masked_softmax(row);
    CAPTURE(refusal);
    const RewrittenLayers made = rewrite_layers(graph, Parameters(graph, 1));
    REQUIRE(made.model);
    CHECK(!made.model->graph.find("shares.masked"));
    REQUIRE(made.refused.size() == (refusal.empty() ? 0 : 1));
    if (refusal.empty()) continue;
    CHECK(made.refused[0].node == "mask");
    CHECK(made.refused[0].what == refusal);
    CHECK(test::error_text<GraphError>([&] {
            (void)plain_model(Model(graph));
          }).find(refusal) != std::string::npos);
  }
}

TEST_CASE("score mask: infinite values elsewhere are refused") {
  const auto refusals = [](const auto& build) {
    test::Net net({2, 3, 4});
    const std::vector<float> values = {0, -inf, 0, 0};
    const NodeId m = net.add(Constant{.value = Tensor::of<float>({4}, values)}, {}, "mask");
    const NodeId h = linear(net.graph, net.x, {.out = 4, .label = "fc"});
    net.graph.set_outputs({build(net, h, m)});
    std::string text;
    for (const Finding& each : rewrite_layers(net.graph, Parameters(net.graph, 1)).refused) {
      text += each.node + ": " + each.what;
    }
    return text;
  };
  CHECK(refusals([](test::Net& net, NodeId h, NodeId m) {
          return net.add(Mul{}, {h, m}, "product");
        }) == "mask: infinite values have no codes: it is an operand of product");
  CHECK(refusals([](test::Net& net, NodeId h, NodeId m) {
          return net.add(Add{}, {h, m}, "sum");
        }) == "mask: infinite values have no codes: sum is an answer");
  CHECK(refusals([](test::Net& net, NodeId h, NodeId m) {
          return net.add(Tanh{}, {net.add(Add{}, {h, m})}, "tanh");
        }) == "mask: infinite values have no codes: its sum is an operand of tanh");
  CHECK(refusals([](test::Net& net, NodeId h, NodeId m) {
          const NodeId shares = net.add(Softmax{.axis = -1}, {net.add(Add{}, {h, m}, "sum")});
          return net.add(Reshape{.shape = {-1, 3, 4}}, {shares}, "answer");
        }) ==
        "mask: infinite values have no codes: its sum is an operand of Softmax after sum");
}
