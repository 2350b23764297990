// Folding of batch norms, in training and afterwards.
#include "qtape/model/passes/fold_batch_norm.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "qtape/engine/print.h"
#include "qtape/integer/training/exact.h"
#include "qtape/model/passes/norm_folds.h"
#include "qtape/optim/optimizer.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/small_nets.h"

using namespace qtape;
using test::error_text;

namespace {

const FakeQuantize ema{.scale_mode = EMA{.decay = 0.9}};

void feed(Tape& tape, uint64_t step) {
  test::fill_uniform(tape.input<float>("x"), Random(17, step), -1.5, 2.5);
}

std::vector<float> first_output(const Tape& tape) {
  return test::copied(tape.value<float>(tape.graph().outputs()[0]));
}

std::vector<float> output_of(const Graph& graph, Parameters& parameters, const Mode& mode,
                             const Arithmetic& arithmetic = {}) {
  Tape tape(graph, parameters, {.arithmetic = arithmetic, .schedule = {.freeze_norms = 0}});
  feed(tape, 99);
  tape.forward(mode);
  return first_output(tape);
}

std::vector<double> codes_of(Graph& graph, Parameters& parameters, const char* label) {
  const NodeId id = graph.at(label);
  Tape tape(graph, parameters, {.outputs = {id}});
  tape.forward(mode::eval);
  const auto values = tape.value<float>(id);
  const auto qparams = tape.qparams(id);
  const ChannelMap map = channel_map(graph, id);
  std::vector<double> codes;
  for (int64_t i = 0; i < static_cast<int64_t>(values.size()); ++i) {
    const auto c = static_cast<size_t>(map(i));
    codes.push_back(double{values[static_cast<size_t>(i)]} / qparams[c].scale);
  }
  return codes;
}

/// Two layers with folded norms, trained until some factors are negative.
SavedModel train(const Op& weight, bool quantized = true) {
  Graph graph;
  NodeId x = graph.add(Input{.shape = {12, 6}}, {}, "x");
  LayerOptions options{.out = 7, .label = "fc1", .folded_norm = BatchNorm{}};
  if (quantized) {
    options.weight_quantizer = weight;
    options.input_quantizer = ema;
  }
  const NodeId hidden = graph.add(Relu{}, {linear(graph, x, options)});
  options.out = 4;
  options.label = "fc2";
  NodeId y = linear(graph, hidden, options);
  if (quantized) y = add_quantizer(graph, y, ema, "output");
  graph.set_outputs({y});
  Parameters parameters(graph, 3);
  const auto gamma = parameters.at("fc1.gamma").values<float>();
  gamma[1] = -0.5f;
  gamma[4] = 1e-6f;
  {
    Tape tape(graph, parameters, {.roots = {y}, .schedule = {.freeze_norms = 6}});
    Optimizer optimizer(parameters, Adam{}, {}, 1);
    for (uint64_t step = 0; step < 9; ++step) {
      feed(tape, step);
      tape.forward(mode::qat);
      std::vector<float> dy = first_output(tape);
      for (size_t i = 0; i < dy.size(); ++i) dy[i] -= static_cast<float>(i % 5);
      tape.backward(y, std::span<const float>(dy));
      optimizer.step(1e-2);
    }
  }
  return {std::move(graph), std::move(parameters), {}};
}

const std::vector<Op> weight_quantizers = {
    FakeQuantize{.bits = 4, .axis = 0}, FakeQuantize{.axis = 0}, FakeQuantize{},
    FakeQuantize{.axis = 0, .scale_mode = EMA{}}, FakeQuantizeLSQ{.bits = 3, .axis = 0}};

/// x w^T, a bias if requested, and a batch norm.
Graph norm_graph(const std::optional<Op>& weight, bool bias, bool columns = false) {
  Graph graph;
  const NodeId x =
      add_quantizer(graph, graph.add(Input{.shape = {12, 6}}, {}, "x"), ema, "fc.input");
  const Shape shape = columns ? Shape{6, 9} : Shape{9, 6};
  NodeId w = graph.add(Parameter{.shape = shape, .initializer = init::KaimingNormal{}}, {},
                       "fc.weight");
  if (weight) w = add_quantizer(graph, w, *weight, "fc.weight");
  NodeId y = graph.add(MatMul{.transpose_b = !columns}, {x, w}, "product");
  if (bias) {
    const NodeId b = graph.add(Parameter{.shape = {9}}, {}, "fc.bias");
    y = graph.add(AddBias{}, {y, b}, "sum");
  }
  y = batch_norm(graph, y, {.label = "fc"});
  graph.set_outputs({add_quantizer(graph, y, ema, "output")});
  return graph;
}

/// Fills a norm with factors of both signs and all magnitudes, except 0.
void randomize(Parameters& parameters, uint64_t seed) {
  const Random random(seed, 21);
  const auto fill = [&](const char* name, uint64_t stream, const auto& f) {
    if (parameters.find(name) == nullptr) return;
    const auto values = parameters.at(name).values<float>();
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(f(random.uniform(stream * 1000 + i)));
    }
  };
  fill("fc.gamma", 1, [](double u) {
    return (u < 0.5 ? -1 : 1) * std::pow(10, std::fmod(u * 1000, 1.0) * 30 - 24);
  });
  fill("fc.beta", 2, [](double u) { return 2 * u - 1; });
  fill("fc.running_mean", 3, [](double u) { return 2 * u - 1; });
  fill("fc.running_var", 4, [](double u) { return std::pow(10, u * 12 - 8); });
  fill("fc.bias", 5, [](double u) { return 2 * u - 1; });
}

}  // namespace

TEST_CASE("fold: a frozen layer computes what its folded graph computes, bit for bit") {
  for (const Op& weight : weight_quantizers) {
    CAPTURE(to_string(weight));
    SavedModel net = train(weight);
    SavedModel folded = fold_batch_norm(net.graph, net.parameters);
    for (const Node& node : folded.graph.nodes()) {
      const std::string_view name = name_of(node.op);
      const bool of_norms = name.starts_with("Fold") || name.starts_with("BatchNorm");
      CHECK(!of_norms);
    }
    for (const char* label : {"fc1.weight", "fc1.bias", "fc1", "fc2"}) {
      CHECK(folded.graph.find(label));
    }
    CHECK(!folded.graph.find("fc1.gamma"));
    const Mode frozen{.train = true, .quantize = true, .batch_statistics = true};
    const auto expected = output_of(folded.graph, folded.parameters, mode::eval);
    CHECK(output_of(net.graph, net.parameters, mode::eval) == expected);
    CHECK(output_of(net.graph, net.parameters, frozen) == expected);
    for (Requantization requantization : requantization::values) {
      const Arithmetic arithmetic = exact(requantization);
      const auto integers = output_of(folded.graph, folded.parameters, mode::eval, arithmetic);
      CHECK(output_of(net.graph, net.parameters, frozen, arithmetic) == integers);
      CHECK(output_of(net.graph, net.parameters, mode::eval, arithmetic) == integers);
      CHECK(to_string(convert(net.graph, net.parameters, requantization)) ==
            to_string(convert(folded.graph, folded.parameters, requantization)));
    }
    CHECK(test::disagreement(net.graph, net.parameters, 5, test::Effort::Some) == "");
    CHECK(test::disagreement(folded.graph, folded.parameters, 5, test::Effort::Some) == "");
  }
  SavedModel plain = train({}, false);
  SavedModel folded = fold_batch_norm(plain.graph, plain.parameters);
  CHECK(output_of(plain.graph, plain.parameters, mode::float_train) ==
        output_of(folded.graph, folded.parameters, mode::float_eval));
}

TEST_CASE("fold: random nets compute what their folded graphs compute") {
  int folded_nets = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const Graph graph = test::random_net(seed);
    const bool norms = std::ranges::any_of(graph.nodes(), [](const Node& node) {
      return std::holds_alternative<BatchNormCorrection>(node.op);
    });
    if (!norms) continue;
    ++folded_nets;
    test::Settled net(graph, seed);
    SavedModel folded = fold_batch_norm(graph, net.parameters);
    for (const Arithmetic& arithmetic : {Arithmetic{}, exact(Requantization::OnnxQdq)}) {
      CHECK(output_of(graph, net.parameters, mode::eval, arithmetic) ==
            output_of(folded.graph, folded.parameters, mode::eval, arithmetic));
    }
    CHECK(to_string(net.program(Requantization::OnnxQdq)) ==
          to_string(convert(folded.graph, folded.parameters, Requantization::OnnxQdq)));
  }
  CHECK(folded_nets > 10);
}

TEST_CASE("fold: exact arithmetic trains folded layers while their statistics move") {
  // Codes of inputs and weights are those of the float forward pass, so the input of the
  // correction differs only by rounding of sums.
  SavedModel net = train(FakeQuantize{.axis = 0});
  const auto output = [&](const Arithmetic& arithmetic) {
    Parameters copy(net.graph, 0);
    for (const ParameterEntry& entry : net.parameters.entries()) {
      copy.set(entry.name, net.parameters.get(entry.name));
    }
    Tape tape(net.graph, copy, {.outputs = {net.graph.at("fc1")}, .arithmetic = arithmetic});
    feed(tape, 5);
    tape.forward(mode::qat);
    CHECK(tape.status(net.graph.at("fc1")).applied);
    return test::copied(tape.value<float>("fc1"));
  };
  const auto expected = output({});
  const auto got = output(exact(Requantization::FloatMultiply));
  for (size_t i = 0; i < got.size(); ++i) {
    CHECK(std::fabs(got[i] - expected[i]) <= 1e-4f * std::max(1.0f, std::fabs(expected[i])));
  }
}

TEST_CASE("fold: a batch norm after a quantized product moves no code") {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    const bool columns = seed % 3 == 1;
    const bool bias = seed % 2 == 1;
    const Op weight = FakeQuantize{.bits = 2 + static_cast<int>(seed % 7),
                                   .axis = seed % 5 == 0 ? std::optional<int>() : columns};
    Graph graph = norm_graph(weight, bias, columns);
    Parameters parameters(graph, seed);
    randomize(parameters, seed);
    SavedModel folded = fold_batch_norm(graph, parameters);
    CHECK(!folded.graph.find("fc.gamma"));
    CHECK(folded.graph.find("fc.bias").has_value() == bias);
    CHECK(folded.graph.find("fc"));
    const auto before = codes_of(graph, parameters, "fc.weight.quantized");
    const auto after = codes_of(folded.graph, folded.parameters, "fc.weight.quantized");
    const auto gamma = parameters.at("fc.gamma").values<float>();
    REQUIRE(after.size() == before.size());
    std::vector<double> codes, expected_codes;
    for (size_t i = 0; i < before.size(); ++i) {
      const size_t c = columns ? i % 9 : i / 6;
      const double expected = std::nearbyint(before[i]) * (gamma[c] < 0 ? -1 : 1);
      codes.push_back(std::nearbyint(after[i]));
      expected_codes.push_back(expected);
      CHECK(std::fabs(after[i] - expected) < 1e-4);
    }
    CHECK(test::first_difference(codes, expected_codes) == "");
  }
}

TEST_CASE("fold: a batch norm after a product is part of its weights and bias") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const bool columns = seed % 3 == 1;
    const std::optional<Op> weight =
        seed % 4 == 0 ? std::nullopt : std::optional<Op>(FakeQuantize{.axis = columns});
    Graph graph = norm_graph(weight, seed % 2 == 1, columns);
    Parameters parameters(graph, seed);
    randomize(parameters, seed);
    for (float& gamma : parameters.at("fc.gamma").values<float>()) gamma = gamma < 0 ? -1 : 2;
    parameters.at("fc.gamma").values<float>()[3] = 0;
    std::ranges::fill(parameters.at("fc.running_var").values<float>(), 0.5f);
    test::settle(graph, parameters, seed);
    SavedModel folded = fold_batch_norm(graph, parameters);
    for (const Mode& mode : {mode::float_eval, mode::eval}) {
      Tape first(graph, parameters, {.outputs = {graph.at("fc")}});
      Tape second(folded.graph, folded.parameters, {.outputs = {folded.graph.at("fc")}});
      feed(first, seed);
      feed(second, seed);
      first.forward(mode);
      second.forward(mode);
      const auto x = first.value<float>("fc");
      const auto y = second.value<float>("fc");
      for (size_t i = 0; i < x.size(); ++i) {
        // In floats the folded weights are on the grid already; otherwise the bias has a grid
        // of its own.
        double error = 2e-5;
        if (weight) error = 0.1;
        if (weight && mode.quantize) {
          const auto w = second.qparams(folded.graph.at("fc.weight.quantized"));
          const auto a = second.qparams(folded.graph.at("fc.input.quantized"));
          error = 2e-5 + a[0].scale * w[i % 9].scale / 2;
        }
        CHECK(double{std::fabs(x[i] - y[i])} <= error);
      }
    }
    if (weight) {
      CHECK(test::disagreement(folded.graph, folded.parameters, seed, test::Effort::Some) ==
            "");
    }
  }
}

TEST_CASE("fold: what cannot be folded is named, and what needs not to be stays") {
  const auto text = [](Graph& graph) {
    Parameters parameters(graph, 1);
    std::ranges::fill(parameters.at("fc.gamma").values<float>(), -1.0f);
    return error_text<GraphError>([&] { (void)fold_batch_norm(graph, parameters); });
  };
  Graph affine = norm_graph(FakeQuantize{.scheme = Scheme::Affine}, false);
  CHECK(
      text(affine) ==
      affine.describe(affine.at("fc")) +
          ": weights must be symmetric with one scale or one for each output to fold it into " +
          affine.describe(affine.at("product")) + ", got " +
          affine.describe(affine.at("fc.weight.quantized")));
  for (const FakeQuantize& quantizer :
       {FakeQuantize{.axis = 1}, FakeQuantize{.axis = 0, .group_size = 3}}) {
    Graph graph = norm_graph(quantizer, true);
    CHECK(text(graph).find("weights must be symmetric with one scale") != std::string::npos);
  }
  Graph full = norm_graph(
      FakeQuantize{
          .bits = 2, .axis = 0, .range = CodeRange::Full, .denominator = Denominator::HalfSpan},
      false);
  CHECK(
      text(full).find("the negative of -2; weights with range Narrow can change their sign") !=
      std::string::npos);
  test::Net bent({12, 6});
  batch_norm(bent.graph, bent.add(Relu{}, {bent.x}), {.label = "fc"});
  CHECK(text(bent.graph) ==
        "no BatchNorm follows a product with weights, and there is no BatchNormCorrection");
  test::Net transposed({12, 6});
  const NodeId w = transposed.parameter({9, 6}, "w");
  const NodeId t = transposed.add(Transpose{}, {transposed.quantized(w, FakeQuantize{}, "w")});
  batch_norm(transposed.graph, transposed.add(MatMul{}, {transposed.x, t}), {.label = "fc"});
  CHECK(text(transposed.graph).find("weights must be quantized last or not at all") !=
        std::string::npos);
}

TEST_CASE("fold: weights and products with other readers are kept for these") {
  test::Net net({12, 6});
  const NodeId y = linear(net.graph, net.x,
                          {.out = 5,
                           .weight_quantizer = FakeQuantize{.axis = 0},
                           .input_quantizer = ema,
                           .label = "fc"});
  const NodeId other = batch_norm(net.graph, net.add(Relu{}, {y}), {.label = "other"});
  const NodeId norm = batch_norm(net.graph, y, {.label = "norm"});
  net.graph.set_outputs({norm, other});
  Parameters parameters(net.graph, 1);
  const SavedModel folded = fold_batch_norm(net.graph, parameters);
  for (const char* label :
       {"fc.weight", "fc.weight2", "fc.weight.quantized", "fc.weight2.quantized", "fc.bias",
        "fc.bias2", "fc.bias2.quantized", "fc", "norm", "other", "other.gamma"}) {
    CAPTURE(label);
    CHECK(folded.graph.find(label));
  }
  CHECK(!folded.graph.find("norm.gamma"));
  CHECK(folded.graph.outputs().size() == 2);
}

namespace {

/// Products of all kinds, each with a norm, and the nodes that may stand between them.
Graph norms_everywhere() {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {2, 5, 5, 4}}, {}, "x");
  const auto weight = [&](const Shape& shape, const char* label) {
    return graph.add(Parameter{.shape = shape, .initializer = init::Fill{0.25}}, {}, label);
  };
  const auto norm = [&](NodeId y, const char* label) {
    return batch_norm(graph, y, {.label = label});
  };
  NodeId y = graph.add(Conv2d{.padding = Padding::Same},
                       {x, weight({6, 3, 3, 4}, "conv.weight")}, "conv");
  y = graph.add(Relu{}, {norm(y, "conv.norm")});
  y = graph.add(Conv2d{.padding = Padding::Same, .groups = 6},
                {y, weight({6, 3, 3, 1}, "deep.weight")});
  y = graph.add(AddBias{}, {y, weight({6}, "deep.bias")}, "deep");
  y = graph.add(Tanh{}, {norm(y, "deep.norm")});
  y = norm(graph.add(ConvTranspose2d{.stride = {2, 2}}, {y, weight({3, 2, 2, 6}, "up.weight")}),
           "up.norm");
  y = graph.add(Reshape{.shape = {-1, 100, 3}}, {y});
  y = graph.add(Conv1d{}, {y, weight({5, 4, 3}, "line.weight")});
  y = norm(graph.add(Reshape{.shape = {-1, 1, 97, 5}}, {y}, "view"), "line.norm");
  y = graph.add(Flatten{}, {y});
  y = graph.add(MatMul{}, {y, weight({485, 7}, "fc.weight")});
  y = graph.add(AddBias{}, {y, weight({7}, "fc.bias")}, "fc");
  y = norm(graph.add(Reshape{.shape = {-1, 7}}, {y}), "fc.norm");
  graph.set_outputs({y});
  return graph;
}

/// Sets statistics and factors that change every channel.
void shake(Parameters& parameters) {
  uint64_t stream = 0;
  for (const ParameterEntry& each : parameters.entries()) {
    const Random random(31, ++stream);
    const bool variance = each.name.ends_with(".running_var");
    test::fill_uniform(each.values<float>(), random, variance ? 0.2 : -1, variance ? 1.2 : 1);
  }
}

/// Checks that both graphs answer alike.
void check_close(const Graph& graph, Parameters& parameters, SavedModel& folded) {
  const auto wanted = output_of(graph, parameters, mode::float_eval);
  const auto got = output_of(folded.graph, folded.parameters, mode::float_eval);
  REQUIRE(wanted.size() == got.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CHECK(double{got[i]} == doctest::Approx(double{wanted[i]}).epsilon(1e-4));
  }
}

std::string kept_text(const Graph& graph) {
  std::string text;
  for (const NormFold& each : norm_folds(graph)) {
    if (!each.reason.empty()) text += graph.name(each.norm) + ": " + each.reason + "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("fold: every product takes its norm, and a network without them computes the same") {
  const Graph graph = norms_everywhere();
  Parameters parameters(graph, 3);
  shake(parameters);
  CHECK(kept_text(graph) == "");
  FoldedNorms folded = fold_norms(graph, parameters);
  std::vector<std::string> names;
  for (const NodeId id : folded.norms) names.push_back(graph[id].label);
  CHECK(names ==
        std::vector<std::string>{"conv.norm", "deep.norm", "up.norm", "line.norm", "fc.norm"});
  REQUIRE(folded.model);
  Graph& plain = folded.model->graph;
  for (const Node& node : plain.nodes()) CHECK(name_of(node.op) != "BatchNorm");
  for (const char* label :
       {"conv.weight", "deep.bias", "line.norm", "fc", "fc.norm", "up.norm.beta"}) {
    CAPTURE(label);
    CHECK(plain.find(label));
  }
  CHECK(folded.model->parameters.trainable_elements() < parameters.trainable_elements());
  check_close(graph, parameters, *folded.model);
}

TEST_CASE("fold: a norm that a network to train cannot have folded stays, with the reason") {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {12, 6}}, {}, "x");
  const auto layer = [&](NodeId from, const char* label, const std::optional<Op>& quantizer) {
    return linear(graph, from, {.out = 6, .weight_quantizer = quantizer, .label = label});
  };
  const NodeId first = batch_norm(graph, x, {.label = "first"});
  const NodeId one = layer(first, "one", {});
  const NodeId act = batch_norm(graph, graph.add(Relu{}, {one}, "act"), {.label = "bent"});
  const NodeId two = layer(act, "two", FakeQuantize{.axis = 0});
  const NodeId codes = batch_norm(graph, two, {.label = "codes"});
  const NodeId three = layer(codes, "three", {});
  const NodeId shared = batch_norm(graph, three, {.label = "shared"});
  const NodeId wide = graph.add(Reshape{.shape = {-1, 3}}, {layer(shared, "four", {})}, "wide");
  const NodeId last = batch_norm(graph, wide, {.label = "last"});
  graph.set_outputs({last, three});
  CHECK(
      kept_text(graph) ==
      "first: Input %0 'x' before it is not a product with weights\nbent: Relu %10 'act' before it is not a product with weights\ncodes: the weights of MatMul %18 are already quantized\nshared: AddBias %29 'three' is also used elsewhere\nlast: Reshape %39 'wide' before it does not preserve the channels of its operand\n");
  Parameters parameters(graph, 1);
  CHECK(!fold_norms(graph, parameters).model);
  CHECK(fold_norms(graph, parameters).norms.empty());
  // For evaluation, norms with products are folded in any case.
  const SavedModel folded = fold_batch_norm(graph, parameters);
  CHECK(!folded.graph.find("codes.gamma"));
  CHECK(!folded.graph.find("shared.gamma"));
  CHECK(folded.graph.find("bent.gamma"));
}

TEST_CASE("fold: norms of training stay where others are folded") {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {12, 6}}, {}, "x");
  const NodeId one = linear(graph, x, {.out = 5, .label = "one", .folded_norm = BatchNorm{}});
  const NodeId two = linear(graph, graph.add(Relu{}, {one}), {.out = 4, .label = "two"});
  graph.set_outputs({batch_norm(graph, two, {.label = "two.norm"})});
  Parameters parameters(graph, 2);
  shake(parameters);
  FoldedNorms folded = fold_norms(graph, parameters);
  REQUIRE(folded.model);
  CHECK(folded.norms == std::vector<NodeId>{graph.at("two.norm")});
  CHECK(folded.model->graph.find("one.gamma"));
  CHECK(!folded.model->graph.find("two.norm.gamma"));
  check_close(graph, parameters, *folded.model);
}
