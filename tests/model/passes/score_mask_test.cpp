// Masks of scores in rewritten layers.
#include "qtape/model/passes/score_mask.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "qtape/engine/quantizers.h"
#include "qtape/model/passes/float_parts.h"
#include "qtape/model/passes/insert_quantizers.h"
#include "qtape/model/passes/rewrite_layers.h"
#include "qtape/model/passes/values_without_codes.h"
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

TEST_CASE("score mask: masks before a LogSoftmax are refused") {
  test::Net net({2, 3, 4});
  const std::vector<float> mask = {0, -1e4f, 0, 0};
  const NodeId m = net.add(Constant{.value = Tensor::of<float>({4}, mask)}, {}, "mask");
  const NodeId sum = net.add(Add{}, {net.add(Tanh{}, {net.x}), m});
  const NodeId logs = net.add(LogSoftmax{.axis = -1}, {sum}, "logs");
  net.graph.set_outputs({linear(net.graph, logs, {.out = 2, .label = "fc"})});
  const RewrittenLayers made = rewrite_layers(net.graph, Parameters(net.graph, 1));
  REQUIRE(made.refused.size() == 1);
  CHECK(made.refused[0].what ==
        "no mask in integers: the logarithms of logs have no codes for it");
}

TEST_CASE("score mask: summands that are no masks stay, infinite ones are refused") {
  const std::string values =
      "its values are not those of a mask: biases within -1,000 and 1,000 together with values "
      "of at most -5,000";
  const std::vector<std::pair<MaskRow, std::string>> rows = {
      {{{0, -99, 0, 0}, {4}}, ""},
      {{{0, -100, 1, 0}, {4}}, ""},
      {{{0, -5000, -4000, 0}, {4}}, ""},
      {{{0, 5000, 0, 0}, {4}}, ""},
      {{{0, 1e9f, 0, 0}, {4}}, "no mask in integers: " + values},
      {{{-inf, -inf, -inf, -inf}, {4}}, "infinite values have no codes: " + values},
      {{{0, inf, -inf, 0}, {4}}, "infinite values have no codes: " + values},
      {{{0, 0, 0, 0, -1e9f, -1e9f, -1e9f, -1e9f, 0, 0, 0, 0}, {3, 4}},
       "no mask in integers: it leaves out all elements of a row"},
      {{{-inf, 0, 0}, {3, 1}},
       "infinite values have no codes: it leaves out all elements of a row"}};
  for (const auto& each : rows) {
    const std::string& refusal = each.second;
    const Graph graph = masked_softmax(each.first);
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

namespace {

/// Returns the findings for a network with the leaf `mask`.
std::string refusals(const std::vector<float>& values,
                     const std::function<NodeId(test::Net&, NodeId, NodeId)>& build) {
  test::Net net({2, 3, 4});
  const NodeId m = net.add(Constant{.value = Tensor::of<float>({4}, values)}, {}, "mask");
  const NodeId h = linear(net.graph, net.x, {.out = 4, .label = "fc"});
  net.graph.set_outputs({build(net, h, m)});
  std::string text;
  for (const Finding& each : rewrite_layers(net.graph, Parameters(net.graph, 1)).refused) {
    text += each.node + ": " + each.what;
  }
  return text;
}

}  // namespace

TEST_CASE("score mask: values without codes are refused elsewhere") {
  for (const float least : {-inf, -1e9f}) {
    const std::vector<float> values = {0, least, 0, 0};
    const bool infinite = std::isinf(least);
    const std::string what =
        infinite ? "mask: infinite values have no codes: " : "mask: no mask in integers: ";
    CHECK(refusals(values, [](test::Net& net, NodeId h, NodeId m) {
            return net.add(Mul{}, {h, m}, "product");
          }) == (infinite ? what + "it is an operand of product" : ""));
    CHECK(refusals(values, [](test::Net& net, NodeId h, NodeId m) {
            return net.add(Add{}, {h, m}, "sum");
          }) == what + "sum is an answer");
    CHECK(refusals(values, [](test::Net& net, NodeId h, NodeId m) {
            return net.add(Tanh{}, {net.add(Add{}, {h, m})}, "tanh");
          }) == what + "its sum is an operand of tanh");
    CHECK(refusals(values, [](test::Net& net, NodeId h, NodeId m) {
            return net.add(Tanh{}, {net.add(AddBias{}, {h, m}, "biased")});
          }) == what + "it is an operand of biased");
    CHECK(refusals(values, [](test::Net& net, NodeId h, NodeId m) {
            const NodeId sum = net.add(Add{}, {h, m}, "sum");
            return net.add(Reshape{.shape = {-1, 3, 4}},
                           {net.add(Softmax{.axis = -1}, {sum}, "shares")}, "answer");
          }) == what + "shares is last, so that its operand is the answer");
    CHECK(refusals(values, [](test::Net& net, NodeId h, NodeId m) {
            const NodeId sum = net.add(Add{}, {h, m}, "sum");
            const NodeId shares = net.add(Softmax{.axis = -1}, {sum}, "shares");
            return net.add(Add{}, {shares, net.add(Sigmoid{}, {sum}, "gate")});
          }) == what + "its sum is an operand of gate");
    CHECK(refusals(values, [](test::Net& net, NodeId h, NodeId m) {
            const NodeId sum = net.add(Add{}, {h, m}, "sum");
            const NodeId joined = net.add(Reshape{.shape = {-1, 12}}, {sum});
            return net.add(Tanh{}, {net.add(Softmax{.axis = -1}, {joined}, "shares")});
          }) == what + "the elements of its rows are moved between its sum and shares");
  }
  // -10,000 and a bias is less than other numbers, but not without a grid.
  CHECK(refusals({0, -1e4f, 0, 0}, [](test::Net& net, NodeId h, NodeId m) {
          return net.add(Tanh{}, {net.add(Add{}, {h, m})});
        }) == "");
}

TEST_CASE("score mask: masks that depend on inputs are refused") {
  for (const double factor : {1e4, -1e9, 30.0}) {
    test::Net net({2, 3, 4});
    const NodeId first = net.add(Slice{.axis = 1, .begin = 0, .end = 1}, {net.x});
    const NodeId m = net.add(Affine{.factor = factor}, {first}, "mask");
    const NodeId moved = net.add(Reshape{.shape = {-1, 1, 4}}, {m});
    const NodeId sum = net.add(Add{}, {net.add(Tanh{}, {net.x}), moved});
    const NodeId shares = net.add(Softmax{.axis = -1}, {sum});
    net.graph.set_outputs({linear(net.graph, shares, {.out = 2, .label = "fc"})});
    const RewrittenLayers made = rewrite_layers(net.graph, Parameters(net.graph, 1));
    REQUIRE(made.refused.size() == (factor == 30 ? 0 : 1));
    if (factor == 30) continue;
    CHECK(
        to_string(made.refused[0]) ==
        "error: mask: no codes hold both scores and a mask that depends on inputs; subtract a "
        "number near the scores, such as 30, or make the mask a constant");
  }
}

TEST_CASE("score mask: of layers without quantizers beside others that have them") {
  InsertOptions some = calibrated_quantizers(8, 8);
  some.complete = false;
  for (const bool mask : {false, true}) {
    const MaskRow row = {{0, 0, 0, mask ? -inf : 1e9f}, {4}};
    const Graph graph = insert_quantizers(masked_softmax(row), some);
    const RewrittenLayers made = rewrite_layers(graph, Parameters(graph, 1));
    REQUIRE(made.model);
    CHECK(made.model->graph.find("shares.masked").has_value() == mask);
    CHECK(made.refused.size() == (mask ? 0 : 1));
  }
  // A quantizer of the mask has a grid of its own, one of the sum leaves the mask without one.
  for (const bool own : {false, true}) {
    test::Net net({2, 3, 4});
    const Constant values{.value =
                              Tensor::of<float>({4}, std::vector<float>{0, 0, -1e9f, 1e9f})};
    NodeId mask = net.add(values, {}, "mask");
    if (own) mask = add_quantizer(net.graph, mask, quantize::weights(8), "mask");
    const NodeId sum = net.add(Add{}, {net.x, mask});
    const NodeId q = add_quantizer(net.graph, sum, quantize::activations(8), "sum");
    const NodeId shares = net.add(Softmax{.axis = -1}, {q});
    net.graph.set_outputs({linear(net.graph, shares, {.out = 2, .label = "fc"})});
    CHECK(rewrite_layers(net.graph, Parameters(net.graph, 1)).refused.size() == (own ? 0 : 1));
  }
}

TEST_CASE("score mask: several masks, with factors, biases and limits between them") {
  const std::vector<float> last = {0, 0, 0, -1e9f}, relative = {-1e4f + 0.5f, -0.5f, 0.5f, 2};
  for (const bool subtracted : {false, true}) {
    CAPTURE(subtracted);
    test::Net net({2, 3, 4});
    const auto leaf = [&](std::vector<float> values, const char* label) {
      return net.add(Constant{.value = Tensor::of<float>({4}, values)}, {}, label);
    };
    NodeId x = net.add(Affine{.factor = 2}, {net.add(Tanh{}, {net.x})});
    std::vector<float> first = last;
    for (float& each : first) each *= subtracted ? -1 : 1;
    const NodeId one = leaf(first, "one");
    x = subtracted ? net.add(Sub{}, {x, one}) : net.add(Add{}, {x, one});
    x = net.add(Affine{.factor = 0.25, .offset = 1}, {x});
    x = net.add(Add{}, {x, net.parameter({3, 4}, "positions")}, "placed");
    x = net.add(Add{}, {leaf(relative, "two"), x});
    x = net.add(Clamp{.low = -3e38, .high = 3e38}, {x});
    const NodeId shares = net.add(Softmax{.axis = -1}, {x}, "shares");
    net.graph.set_outputs({linear(net.graph, shares, {.out = 2, .label = "fc"})});
    Parameters parameters(net.graph, 1);
    test::fill_uniform(parameters.find("positions")->values<float>(), Random(6, 1), -1, 1);
    const RewrittenLayers made = rewrite_layers(net.graph, parameters);
    CHECK(made.refused.empty());
    REQUIRE(made.model);
    for (const char* gone : {"one", "two"}) CHECK(!made.model->graph.find(gone));
    CHECK(made.model->graph.find("positions"));
    check_close(net.graph, parameters, *made.model);
    check_integers(made.model->graph, 8);
  }
}

TEST_CASE("score mask: biases are relative to the largest of their row") {
  const MaskRow row = {{-900, -901, -inf, -300, -900, 900, 900, 901, -inf, -inf, -inf, 7},
                       {3, 4}};
  const Graph graph = masked_softmax(row);
  const auto mask = score_mask(graph, Parameters(graph, 1), graph.at("shares"));
  REQUIRE(mask);
  CHECK(mask->counts == std::vector<bool>{false, false, false, true, false, true, true, true,
                                          false, false, false, true});
  CHECK(mask->biases == std::vector<float>{0, 0, 0, 0, 0, -1, -1, 0, 0, 0, 0, 0});
}
