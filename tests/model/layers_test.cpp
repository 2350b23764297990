// Rounding of biases by `linear` and `insert_quantizers`.
#include "qtape/model/layers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "qtape/engine/plan_hooks.h"
#include "qtape/integer/rules/analysis.h"
#include "qtape/model/passes/insert_quantizers.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/exact_formulas.h"
#include "qtape/tests/support/small_nets.h"

using namespace qtape;

TEST_CASE("layers: linear puts its bias on the grid of its sums, where there is one") {
  const FakeQuantize four{.bits = 4};
  const FakeQuantize each{.bits = 4, .axis = 0};
  const auto made = [](const LayerOptions& options, bool quantize_x = false) {
    test::Net net({2, 6});
    const NodeId x = quantize_x ? net.quantized(net.x, FakeQuantize{}, "before") : net.x;
    const NodeId y = linear(net.graph, x, options);
    const auto found = net.graph.find("layer.bias.quantized");
    if (found) CHECK(net.graph[y].operands[1] == *found);
    return found.has_value();
  };
  CHECK(made({.out = 4, .weight_quantizer = each, .input_quantizer = four}));
  CHECK(made({.out = 4, .weight_quantizer = four, .input_quantizer = FakeQuantizePACT{}}));
  CHECK(made({.out = 4, .weight_quantizer = each}, true));
  CHECK(!made({.out = 4, .weight_quantizer = each, .input_quantizer = four, .bias = false}));
  CHECK(!made(
      {.out = 4, .weight_quantizer = each, .input_quantizer = four, .bias_on_grid = false}));
  CHECK(!made({.out = 4, .weight_quantizer = each}));
  CHECK(!made({.out = 4, .input_quantizer = four}));
  CHECK(!made({.out = 4}, true));
  // Sums over several scales have no common grid.
  CHECK(!made({.out = 4, .weight_quantizer = each, .input_quantizer = each}));
  CHECK(!made({.out = 6,
               .weight_quantizer = four.with(&FakeQuantize::axis, 1),
               .input_quantizer = four}));
  CHECK(!made({.out = 6,
               .weight_quantizer = FakeQuantize{.axis = 0, .group_size = 6},
               .input_quantizer = four}));
}

TEST_CASE("layers: the forward of linear adds what lies on the grid") {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {2, 6}}, {}, "x");
  const NodeId y = linear(graph, x,
                          {.out = 4,
                           .weight_quantizer = FakeQuantize{.bits = 3, .axis = 0},
                           .input_quantizer = FakeQuantize{.bits = 3}});
  Parameters parameters(graph, 5);
  const std::vector<float> bias = {0.11f, -0.22f, 0.33f, 5.5f};
  std::ranges::copy(bias, parameters.at("layer.bias").values<float>().begin());
  Tape tape(graph, parameters, {.outputs = {y, graph[y].operands[0]}},
            PlanHooks{.share_memory = false});
  std::iota(tape.input<float>(x).begin(), tape.input<float>(x).end(), -4.0f);
  tape.forward(mode::eval);
  const auto s_x = static_cast<float>(tape.qparams(graph.at("layer.input.quantized"))[0].scale);
  const auto s_w = tape.qparams(graph.at("layer.weight.quantized"));
  const auto sums = tape.value<float>(graph[y].operands[0]);
  for (size_t i = 0; i < 8; ++i) {
    const auto s = static_cast<float>(s_w[i % 4].scale);
    const auto code = static_cast<double>(test::formulas::bias(bias[i % 4], s_x, s));
    CHECK(tape.value<float>(y)[i] ==
          sums[i] + static_cast<float>(code * (double{s_x} * double{s})));
  }
}

TEST_CASE("layers: inserted quantizers round a bias as linear does") {
  const FakeQuantize input{.scale_mode = EMA{}};
  const FakeQuantize weight{.axis = 0};
  Graph plain;
  const NodeId x = plain.add(Input{.shape = {8, 6}}, {}, "x");
  const NodeId hidden = plain.add(Relu{}, {linear(plain, x, {.out = 5, .label = "fc1"})});
  // A separate layout, a shared bias, and a computed bias.
  const NodeId w = plain.add(Parameter{.shape = {5, 5}}, {}, "columns");
  const NodeId product = plain.add(MatMul{}, {hidden, w});
  const NodeId b = plain.at("fc1.bias");
  const NodeId y = plain.add(AddBias{}, {product, b}, "y");
  const NodeId negative = plain.add(Neg{}, {b});
  const NodeId z = plain.add(AddBias{}, {product, negative}, "z");
  plain.set_outputs({y, z});
  const auto operand = [](const Graph& graph, const char* label) {
    return graph[graph[graph.at(label)].operands[1]];
  };
  const Graph made = insert_quantizers(plain, {.weight = weight, .input = input});
  CHECK(operand(made, "fc1").label == "fc1.bias.quantized");
  CHECK(operand(made, "y").label == "fc1.bias2.quantized");
  CHECK(made.name(operand(made, "y").operands[1]) == "columns.input.quantized");
  CHECK(made.name(operand(made, "y").operands[2]) == "columns.quantized");
  CHECK(std::holds_alternative<FakeQuantizeBias>(operand(made, "z").op));
  CHECK(std::holds_alternative<Neg>(made[operand(made, "z").operands[0]].op));
  for (const Node& node : plain.nodes()) CHECK((node.label.empty() || made.find(node.label)));
  const auto count = [&](const Graph& from, const InsertOptions& options) {
    const Graph graph = insert_quantizers(from, options);
    return std::ranges::count_if(graph.nodes(), [](const Node& node) {
      return std::holds_alternative<FakeQuantizeBias>(node.op);
    });
  };
  CHECK(count(plain, {.weight = weight, .input = input}) == 3);
  CHECK(count(plain, {.weight = weight, .input = input, .pattern = "fc1*"}) == 1);
  CHECK(count(plain, {.weight = weight}) == 0);
  CHECK(count(plain, {.input = input}) == 0);
  CHECK(count(plain, {.weight = weight, .input = input, .bias_on_grid = false}) == 0);
  CHECK(count(plain, {.weight = weight.with(&FakeQuantize::axis, 1), .input = input}) == 0);
}

TEST_CASE("layers: a bias takes the grid of the quantizer that its layer's input shows") {
  using Chain = std::vector<Op>;
  const Slice slice{.axis = 1, .begin = 1};
  const Reshape fold{.shape = {-1, 3, 2}};
  const auto made = [](const Chain& chain, const FakeQuantize& input) {
    test::Net net({2, 6});
    Graph& graph = net.graph;
    const NodeId quantizer = net.quantized(net.x, input, "before");
    NodeId x = quantizer;
    for (const Op& op : chain) x = net.add(op, {x});
    const NodeId y = net.layer(x, 4, "layer");
    graph.set_outputs({y});
    const IntegerAnalysis analysis = analyze_integers(graph);
    const std::string& reason = analysis.refusal(y).reason;
    const bool integer = analysis[y].kind == IntegerKind::Accumulators;
    const auto bias = graph.find("layer.bias.quantized");
    // If sums are integers, the bias is on their grid, and conversion uses the same grid.
    CHECK(integer == bias.has_value());
    CHECK(reason == "");
    if (bias) CHECK(graph[*bias].operands[1] == quantizer);
    return bias.has_value();
  };
  const FakeQuantize four{.bits = 4};
  for (const Chain& chain :
       {Chain{slice}, Chain{fold}, Chain{Flatten{}}, Chain{StopGradient{}},
        Chain{Dropout{.rate = 0.5}}, Chain{Relu{}}, Chain{fold, Max{.axes = {1}}},
        Chain{slice, Relu{}, Dropout{.rate = 0.1}, slice}}) {
    CHECK(made(chain, four));
  }
  for (const Chain& chain :
       {Chain{Clamp{.low = -1, .high = 1}}, Chain{slice, Tanh{}},
        Chain{Clamp{.low = -1, .high = 1}, Relu{}}, Chain{fold, Mean{.axes = {1}}}}) {
    CHECK(!made(chain, four));
  }
  CHECK(!made(Chain{slice}, four.with(&FakeQuantize::axis, 1)));
}

TEST_CASE("layers: inserted quantizers leave what shows a quantizer alone, and use its grid") {
  test::Net plain({2, 6});
  const NodeId codes = plain.quantized(plain.x, FakeQuantize{}, "before");
  const NodeId part = plain.add(Slice{.axis = 1, .end = 4}, {codes});
  plain.graph.set_outputs({linear(plain.graph, part, {.out = 3, .label = "fc"})});
  const Graph made = insert_quantizers(
      plain.graph, {.weight = FakeQuantize{.axis = 0}, .input = FakeQuantize{}});
  CHECK(!made.find("fc.input.quantized"));
  const Node& bias = made[made.at("fc.bias.quantized")];
  CHECK(made.name(bias.operands[1]) == "before.quantized");
  CHECK(made.name(bias.operands[2]) == "fc.weight.quantized");
  CHECK(analyze_integers(made)[made.outputs()[0]].kind == IntegerKind::Accumulators);
}

TEST_CASE("layers: a separable convolution is a depthwise one, an activation and one of 1x1") {
  const LayerOptions options{.out = 7,
                             .weight_quantizer = FakeQuantize{.axis = 0},
                             .input_quantizer = FakeQuantize{.range = CodeRange::Unsigned},
                             .label = "block"};
  const Conv2d op{.stride = {2, 2}, .padding = Padding::Same};
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {2, 9, 8, 5}}, {}, "x");
  const NodeId y = separable_conv2d(graph, x, op, {3, 3}, options);
  CHECK(graph[y].type.shape == Shape{2, 5, 4, 7});
  const auto shape = [&](const char* label) { return graph[graph.at(label)].type.shape; };
  CHECK(shape("block.depthwise.weight") == Shape{5, 3, 3, 1});
  CHECK(shape("block.pointwise.weight") == Shape{7, 1, 1, 5});
  Graph hand;
  NodeId z = hand.add(Input{.shape = {2, 9, 8, 5}}, {}, "x");
  LayerOptions each = options;
  each.out = 0;
  each.label = "block.depthwise";
  z = hand.add(Relu{}, {depthwise_conv2d(hand, z, op, {3, 3}, each)});
  each.out = 7;
  each.label = "block.pointwise";
  (void)conv2d(hand, z, {}, {1, 1}, each);
  CHECK(graph == hand);
}

TEST_CASE("layers: convolutions and residual sums refuse what they cannot be made of") {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {2, 4, 4, 6}}, {}, "x");
  const NodeId flat = graph.add(Input{.shape = {2, 6}}, {}, "flat");
  const auto error = [](const auto& body) { return test::error_text<GraphError>(body); };
  CHECK(error([&] {
          (void)conv2d(graph, flat, {}, {3, 3}, {.out = 2});
        }) == "conv2d 'layer': x must be [n, h, w, c], got f32[2, 6]");
  CHECK(error([&] { (void)conv1d(graph, x, {}, 3, {.out = 2, .label = "a"}); }) ==
        "conv1d 'a': x must be [n, l, c], got f32[2, 4, 4, 6]");
  CHECK(error([&] { (void)conv2d(graph, x, {}, {3}, {.out = 2}); }) ==
        "conv2d 'layer': kernel must be [h, w], got [3]");
  CHECK(error([&] {
          (void)conv2d(graph, x, {}, {3, 3}, {});
        }) == "conv2d 'layer': out must be at least 1, got 0");
  CHECK(error([&] {
          (void)conv2d(graph, x, {.groups = 4}, {3, 3}, {.out = 4, .label = "g"});
        }).find("groups") != std::string::npos);
  CHECK(error([&] {
          (void)conv2d(graph, x, {}, {5, 5}, {.out = 4, .label = "k"});
        }).find("kernel") != std::string::npos);
  CHECK(error([&] { (void)residual(graph, x, flat, {}, {}, "r"); }) ==
        "residual 'r': branch and skip must agree, got f32[2, 4, 4, 6] and f32[2, 6]");
}
