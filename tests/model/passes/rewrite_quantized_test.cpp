// Layers of quantized models that become other layers, with the scales of their quantizers.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "qtape/model/passes/float_parts.h"
#include "qtape/model/passes/fold_batch_norm.h"
#include "qtape/model/passes/last_softmax.h"
#include "qtape/model/passes/rewrite_layers.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/small_nets.h"

using namespace qtape;

namespace {

const FakeQuantize fixed{.ste = Ste::ClippedIdentity, .scale_mode = Fixed{}};

std::vector<float> answer(const Graph& graph, const Parameters& parameters) {
  Tape tape(graph, parameters, {});
  test::fill_uniform(tape.input<float>("x"), Random(3, 2), -2, 2);
  tape.forward(mode::eval);
  return test::copied(tape.value<float>(graph.outputs()[0]));
}

/// Quantized x and weights of a layer, whose scales are powers of 2: sums are exact.
struct QuantizedLayer : test::Net {
  NodeId xq;
  NodeId wq;

  QuantizedLayer(const Shape& x_shape, const Shape& w_shape, bool by_output,
                 CodeRange range = fixed.range)
      : Net(x_shape) {
    xq = quantized(x, fixed, "x");
    FakeQuantize op = fixed;
    op.range = range;
    if (by_output) op.axis = 0;
    wq = quantized(parameter(w_shape, "w"), op, "w");
    outputs_ = by_output ? w_shape[0] : 1;
  }
  NodeId with_bias(NodeId y, int64_t out) {
    const NodeId b = parameter({out}, "b");
    return add(AddBias{}, {y, add(FakeQuantizeBias{}, {b, xq, wq})}, "layer");
  }
  /// Ends the net with a Relu and a quantizer.
  NodeId end(NodeId y) {
    const NodeId end = quantized(add(Relu{}, {y}), fixed, "end");
    graph.set_outputs({end});
    return end;
  }
  Parameters values(NodeId end) const {
    Parameters parameters = with_scales({{xq, 0x1p-5}, {end, 0x1p-3}});
    std::vector<QParams<double>> scales;
    for (int64_t i = 0; i < outputs_; ++i) scales.push_back({std::ldexp(1, -5 - int(i)), 0});
    set_qparams(graph, parameters, wq, scales);
    test::fill_uniform(parameters.find("b")->values<float>(), Random(5, 1), -1, 1);
    return parameters;
  }

 private:
  int64_t outputs_;
};

/// Checks that a rewritten model has integers at all levels, and the same answer bit for bit.
void check_same(const Graph& graph, const Parameters& parameters, RewrittenLayers& made) {
  REQUIRE(made.model);
  CHECK(float_parts(made.model->graph).empty());
  CHECK(unquantized_parts(made.model->graph).empty());
  CHECK(answer(made.model->graph, made.model->parameters) == answer(graph, parameters));
  CHECK(test::disagreement(made.model->graph, made.model->parameters, 4, test::Effort::Some) ==
        "");
}

}  // namespace

TEST_CASE("rewrite quantized: phases have the codes of the transposed convolution") {
  for (const bool by_output : {false, true}) {
    for (const int64_t groups : {1, 2}) {
      CAPTURE(by_output);
      CAPTURE(groups);
      QuantizedLayer net({2, 3, 3, 4}, {4, 3, 2, 4 / groups}, by_output);
      const ConvTranspose2d op{.stride = {2, 2}, .groups = groups};
      const NodeId end = net.end(net.with_bias(net.add(op, {net.xq, net.wq}), 4));
      const Parameters parameters = net.values(end);
      CHECK(float_parts(net.graph).size() == 1);
      RewrittenLayers made = rewrite_layers(net.graph, parameters);
      CHECK(made.rewritten == std::vector<std::string>{"layer"});
      check_same(net.graph, parameters, made);
      CHECK(made.model->parameters.get("w") == parameters.get("w"));
      CHECK(made.model->parameters.get("w.scale") == parameters.get("w.scale"));
    }
  }
}

TEST_CASE("rewrite quantized: a norm that QAT placed after scaled weights is folded away") {
  // As PyTorch exports Conv with BatchNorm: conv(x, w f) / f, then the norm, of which f is the
  // factor.
  for (const bool by_output : {false, true}) {
    CAPTURE(by_output);
    QuantizedLayer net({2, 3, 3, 4}, {3, 2, 2, 4}, by_output);
    NodeId y = net.with_bias(net.add(Conv2d{}, {net.xq, net.wq}), 3);
    y = net.add(Div{}, {y, net.parameter({3}, "f")});
    const NodeId norm = net.add(BatchNorm{.eps = 0x1p-16},
                                {y, net.parameter({3}, "gamma"), net.parameter({3}, "beta"),
                                 net.add(State{.shape = {3}}, {}, "mean"),
                                 net.add(State{.shape = {3}}, {}, "variance")});
    const NodeId end = net.end(norm);
    Parameters parameters = net.values(end);
    const auto set = [&](const char* name, const std::vector<float>& numbers) {
      parameters.set(name, Tensor::of<float>({3}, numbers));
    };
    // The factors are exact: gamma / sqrt(variance + eps) = f.
    set("f", {0.5f, 2, 4});
    set("gamma", {0.5f, 4, 2});
    set("variance", {1 - 0x1p-16f, 4 - 0x1p-16f, 0.25f - 0x1p-16f});
    set("beta", {0.25f, -0.5f, 1});
    set("mean", {0.5f, 0, -0.25f});
    RewrittenLayers made = rewrite_layers(net.graph, parameters);
    check_same(net.graph, parameters, made);
    // The scales are those of the file, once for each output.
    const Tensor scales = made.model->parameters.get("w.scale");
    const Tensor before = parameters.get("w.scale");
    const auto wanted = before.values<float>();
    for (size_t i = 0; i < 3; ++i) {
      CHECK(scales.values<float>()[i] == wanted[by_output ? i : 0]);
    }
  }
}

TEST_CASE("rewrite quantized: a norm that would negate the lowest code stays") {
  QuantizedLayer net({2, 4}, {4, 3}, false, CodeRange::Full);
  const NodeId product = net.with_bias(net.add(MatMul{}, {net.xq, net.wq}), 3);
  const NodeId norm = batch_norm(net.graph, product, {.label = "norm"});
  Parameters parameters = net.values(net.end(norm));
  parameters.set("norm.gamma", Tensor::of<float>({3}, std::vector<float>{1, -1, 1}));
  parameters.set("w", Tensor::of<float>({4, 3}, std::vector<float>(12, -4)));
  CHECK(rewrite_layers(net.graph, parameters).folded.empty());
  CHECK(test::error_text<GraphError>([&] {
          (void)fold_batch_norm(net.graph, parameters);
        }).find("the factor of channel 1 is -0.99") != std::string::npos);
  // Without that code it is folded.
  parameters.set("w", Tensor::of<float>({4, 3}, std::vector<float>(12, -3.9375f)));
  CHECK(rewrite_layers(net.graph, parameters).folded == std::vector<std::string>{"norm"});
}

TEST_CASE("rewrite quantized: only nodes without integers are replaced") {
  // A border of a number has a code, and Hardswish as a quotient is a function of codes.
  test::Net net({2, 4});
  const NodeId xq = net.quantized(net.x, fixed, "x");
  const NodeId padded = net.add(Pad{.begin = {0, 1}, .end = {0, 0}, .value = 0.5}, {xq});
  const NodeId shifted = net.add(Affine{.offset = 3}, {padded});
  const NodeId ratio = net.add(Div{}, {padded, shifted});
  net.graph.set_outputs({net.quantized(ratio, fixed, "y")});
  const test::Settled settled(net.graph, 3);
  CHECK(!rewrite_layers(settled.graph, settled.parameters).model);
  // Without the first quantizer both are replaced, and then need quantizers.
  test::Net plain({2, 4});
  const NodeId border = plain.add(Pad{.begin = {0, 1}, .end = {0, 0}, .value = 0.5}, {plain.x});
  const NodeId sum = plain.add(Softmax{.axis = 1}, {border});
  plain.graph.set_outputs({plain.quantized(sum, fixed, "y"), plain.add(Neg{}, {sum})});
  const test::Settled partly(plain.graph, 3);
  const RewrittenLayers made = rewrite_layers(partly.graph, partly.parameters);
  REQUIRE(made.model);
  CHECK(float_parts(made.model->graph).empty());
  CHECK(!unquantized_parts(made.model->graph).empty());
}

TEST_CASE("rewrite quantized: a last Softmax is left out with its quantizer") {
  test::Net net({2, 4});
  const NodeId xq = net.quantized(net.x, fixed, "x");
  const NodeId soft = net.add(Softmax{.axis = 1}, {xq}, "soft");
  const NodeId probabilities = net.quantized(soft, fixed, "soft");
  net.graph.set_outputs({net.add(Reshape{.shape = {-1, 4}}, {probabilities}, "y")});
  CHECK(last_softmaxes(net.graph) == std::vector<NodeId>{soft});
  CHECK(float_parts(net.graph).empty());
  const Graph cut = without_last_softmaxes(net.graph);
  CHECK(quantizers(cut).size() == 1);
  CHECK(cut[cut.outputs()[0]].label == "y");
  // Ties of rounded probabilities could change the largest.
  const NodeId largest = net.add(ArgMax{.axis = 1}, {probabilities});
  net.graph.set_outputs({net.add(Cast{}, {largest})});
  CHECK(last_softmaxes(net.graph).empty());
}

TEST_CASE("rewrite quantized: networks that have integers do not change") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const test::Settled net(test::any_net(seed), seed);
    CHECK(!rewrite_layers(net.graph, net.parameters).model);
  }
}
