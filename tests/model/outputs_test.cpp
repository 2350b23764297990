// Models with several answers, and the choice of the loss among the outputs.
#include <doctest/doctest.h>

#include <cmath>

#include "qtape/c99/levels.h"
#include "qtape/deploy/verify.h"
#include "qtape/engine/labels.h"
#include "qtape/engine/quantizers.h"
#include "qtape/engine/serialize.h"
#include "qtape/integer/program/output_names.h"
#include "qtape/io/sha256.h"
#include "qtape/model/evaluate.h"
#include "qtape/model/feed.h"
#include "qtape/model/fit.h"
#include "qtape/model/model.h"
#include "qtape/model/recipe.h"
#include "qtape/onnx/levels.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/integer_programs.h"
#include "qtape/tests/support/small_nets.h"

using namespace qtape;
using test::error_text;

namespace {

constexpr int64_t samples = 600;

/// Three waves over 8 values, with one target number and one class per sample.
data::Dataset waves() {
  std::vector<float> x;
  std::vector<float> phase;
  std::vector<int32_t> kind;
  for (int i = 0; i < samples; ++i) {
    const int speed = i % 3;
    const auto start = static_cast<float>(i) * 0.37f;
    for (int k = 0; k < 8; ++k) {
      x.push_back(std::sin(start + static_cast<float>(k * (speed + 1)) * 0.4f));
    }
    phase.push_back(std::sin(start));
    kind.push_back(speed);
  }
  data::Dataset set;
  set.add("x", Tensor::of<float>({samples, 8}, x));
  set.add_target("phase", Tensor::of<float>({samples, 1}, phase));
  set.add_target("kind", Tensor::of<int32_t>({samples}, kind));
  return set;
}

/// A trunk with an answer of one number and one of three classes, without a loss.
Model two_heads() {
  Network net;
  const Value h = relu(linear(net.input("x", {8}), 12, {.label = "trunk"}));
  return Model({linear(h, 1, {.label = "value"}), linear(h, 3, {.label = "class"})}, 3);
}

Model trained_heads() {
  Model model = quantized(with_loss(two_heads(), waves()), {}, waves(), 256, 1);
  (void)fit(model, waves(), {.epochs = 3, .batch = 30, .threads = 1, .progress = false});
  return model;
}

std::vector<std::string> names(const Graph& graph, const std::vector<NodeId>& ids) {
  std::vector<std::string> all;
  for (NodeId id : ids) all.push_back(graph.name(id));
  return all;
}

}  // namespace

TEST_CASE("outputs: a second answer of one number a sample is no loss") {
  Network net;
  const Value x = net.input("x", {8});
  Graph graph = linear(x, 3, {.label = "class"}).graph();
  const NodeId first = graph.at("class");
  const Value y = linear(x, 1, {.label = "value"});
  Graph both = y.graph();
  both.set_outputs({first, y.id()});
  const Model model(both);
  CHECK(!model.loss());
  CHECK(names(model.graph(), model.outputs()) == std::vector<std::string>{"class", "value"});
  CHECK(model.answer() == first);
}

TEST_CASE("outputs: losses are those stated, else scalars that depend on parameters") {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {4, 2}}, {}, "x");
  const NodeId w = graph.add(Parameter{.shape = {2, 2}}, {}, "w");
  const NodeId y = graph.add(MatMul{}, {x, w}, "y");
  const NodeId mean = graph.add(Mean{}, {y}, "mean");
  const NodeId input_mean = graph.add(Mean{}, {x}, "input mean");
  graph.set_outputs({y, input_mean, mean});
  CHECK(graph.losses() == std::vector{mean});
  CHECK(graph.answers() == std::vector{y, input_mean});
  graph.set_outputs({y, mean}, {});
  CHECK(graph.losses().empty());
  CHECK(Model(graph).outputs() == std::vector{y, mean});
  graph.set_outputs({mean, y}, {mean});
  CHECK(Model(graph).answer() == y);
  CHECK(Model(graph).loss() == mean);
  CHECK(graph.with_batch(2).losses() == std::vector{mean});
  CHECK(error_text<GraphError>([&] { graph.set_outputs({y}, {mean}); }) ==
        "Mean %3 'mean' (%2 'y' f32[4, 2]): a loss must be one of the outputs");
  CHECK(error_text<GraphError>([&] {
          graph.set_outputs({y, mean}, {mean, mean});
        }) == "Mean %3 'mean' (%2 'y' f32[4, 2]): a loss may be listed only once");
  CHECK(
      error_text<GraphError>([&] {
        graph.set_outputs({y, mean}, {y});
      }) ==
      "MatMul %2 'y' (%0 'x' f32[4, 2], %1 'w' f32[2, 2]): a loss must be one number of f32 or f64, got f32[4, 2]");
  CHECK(graph.losses() == std::vector{mean});
  graph.set_outputs({mean}, {mean});
  CHECK(error_text<GraphError>([&] { Model model(graph); }) ==
        "all outputs of the graph are losses: it has no answer");
}

TEST_CASE("outputs: files keep what is stated, and what is not") {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {4, 2}}, {}, "x");
  const NodeId w = graph.add(Parameter{.shape = {2, 2}}, {}, "w");
  const NodeId y = graph.add(MatMul{}, {x, w}, "y");
  const NodeId mean = graph.add(Mean{}, {y}, "mean");
  const Parameters parameters(graph, 1);
  const auto again = [&] { return model_from_json(to_json(graph, parameters)).graph; };
  graph.set_outputs({y, mean});
  CHECK(to_json(graph, parameters).find("losses") == std::string::npos);
  CHECK(again() == graph);
  CHECK(again().losses() == std::vector{mean});
  graph.set_outputs({y, mean}, {});
  CHECK(again() == graph);
  CHECK(again().losses().empty());
  graph.set_outputs({y, mean}, {mean});
  const std::string text = to_json(graph, parameters);
  CHECK(text.find("\"outputs\": [2,3],\n\"losses\": [3]") != std::string::npos);
  CHECK(again() == graph);
  const auto error_with = [&](const std::string& losses) {
    std::string changed = text;
    changed.replace(changed.find("[3]"), 3, losses);
    return error_text<FormatError>([&] { (void)model_from_json(changed); });
  };
  CHECK(
      error_with("[2]") ==
      "/losses: MatMul %2 'y' (%0 'x' f32[4, 2], %1 'w' f32[2, 2]): a loss must be one number of f32 or f64, got f32[4, 2]");
  CHECK(error_with("[1]") == "/losses: Parameter %1 'w': a loss must be one of the outputs");
  CHECK(error_with("[9]") == "/losses: node %9 does not exist; the graph has 4 nodes");
}

TEST_CASE("outputs: quantizing keeps the losses that are stated") {
  const Model model = with_loss(two_heads(), waves());
  REQUIRE(model.loss());
  CHECK(names(model.graph(), model.outputs()) == std::vector<std::string>{"value", "class"});
  const Graph quantizers = quantized(model.graph(), {});
  CHECK(quantizers.states_losses());
  CHECK(quantizers.losses().size() == 1);
  CHECK(quantizers.answers().size() == 2);
  CHECK(without_quantizers(quantizers).losses() == model.graph().losses());
}

TEST_CASE("outputs: a loss is made of as many targets as there are answers") {
  data::Dataset data;
  data.add("x", Tensor::of<float>({2, 8}, std::vector<float>(16)));
  const auto refused = [&](const Model& model, int answers, int targets) {
    const std::string text = error_text<GraphError>(
        [&] { (void)with_loss(Model(model.graph(), model.parameters()), data); });
    CHECK(
        text ==
        fmt::format(
            "the model has {} answers, but the data have {} targets: give one target for each answer, or build the loss in C++",
            answers, targets));
  };
  data.add_target("y", Tensor::of<float>({2, 1}, std::vector<float>(2)));
  refused(two_heads(), 2, 1);
  data.add_target("z", Tensor::of<float>({2, 1}, std::vector<float>(2)));
  Network net;
  refused(Model(linear(net.input("x", {8}), 1)), 1, 2);
}

TEST_CASE("outputs: two trained heads convert, verify at every level and predict as integers") {
  const Model model = trained_heads();
  const data::Dataset data = waves();
  for (const Requantization rounding : requantization::values) {
    const IntegerProgram program = model.integers(rounding);
    CHECK(program.outputs().size() == 2);
    CHECK(output_name(program, program.outputs()[0]) == "value");
    CHECK(output_name(program, program.outputs()[1]) == "class");
  }
  VerifyOptions options;
  options.convert.requantization = Requantization::OnnxQdq;
  options.levels = {Level::Float, Level::Exact, Level::Backend, c_level, onnx_level};
  options.runners = onnx_levels({.form = OnnxForm::Integer});
  options.runners.merge(c_levels());
  options.threads = 1;
  Verifier verifier(model.graph(), model.parameters(), options);
  Feed feed(inputs_of(verifier), data);
  feed.for_each_batch([&](int64_t, int64_t count) { verifier.run(count); });
  CHECK(test::mismatch(verifier) == "");
  CHECK(verifier.program().outputs().size() == 2);
  const auto has = [&](const std::string& label) {
    return std::ranges::count(verifier.layers(), label, &LayerComparison::label) == 1;
  };
  CHECK(has("value"));
  CHECK(has("class"));

  const IntegerProgram program = model.integers(Requantization::FloatMultiply);
  const NamedTensors answers = predict_all(program, data, 1);
  REQUIRE(answers.size() == 2);
  CHECK(answers[0].name == "value");
  CHECK(answers[0].tensor.type == TensorType{DType::F32, {samples, 1}});
  CHECK(answers[1].name == "class");
  CHECK(answers[1].tensor.type == TensorType{DType::F32, {samples, 3}});
  CHECK(answers[0].tensor == predict(program, data, 1));
  CHECK(predict_all(model, data, 1).size() == 2);
  CHECK(predict_all(model, data, 1)[0].tensor == predict(model, data, 1));
}

TEST_CASE("outputs: evaluation scores and hashes each answer") {
  const Model model = trained_heads();
  const Evaluation result = evaluate(model, waves(), 1);
  REQUIRE(result.score);
  CHECK(result.score->metric == MetricKind::MeanSquaredError);
  CHECK(!result.accuracy);
  REQUIRE(result.outputs.size() == 2);
  CHECK(result.outputs[0].label == "value");
  CHECK(result.outputs[1].label == "class");
  CHECK(result.outputs[0].score == result.score);
  // The hash of all answers is computed sample by sample, so it does not depend on the batch
  // size.
  const NamedTensors answers = predict_all(model, waves(), 1);
  Sha256 all;
  const std::span<const std::byte> value = answers[0].tensor.data;
  const std::span<const std::byte> kind = answers[1].tensor.data;
  for (size_t i = 0; i < static_cast<size_t>(samples); ++i) {
    all.update(value.subspan(4 * i, 4));
    all.update(kind.subspan(12 * i, 12));
  }
  CHECK(result.outputs_sha256 == hex(all.digest()));
  Sha256 second;
  second.update(kind);
  CHECK(result.outputs[1].sha256 == hex(second.digest()));
  const Evaluation integers =
      evaluate(model.integers(Requantization::FloatMultiply), waves(), 1);
  CHECK(integers.outputs.size() == 2);
  CHECK(integers.outputs[1].label == "class");
  const auto right = [](const Tensor& classes) {
    double found = 0;
    for (size_t i = 0; i < static_cast<size_t>(samples); ++i) {
      found +=
          predicted(classes.values<float>().subspan(3 * i, 3)) == static_cast<int64_t>(i % 3);
    }
    return MetricScore{MetricKind::Accuracy, 100 * found / samples};
  };
  CHECK(result.outputs[1].score == right(answers[1].tensor));
  CHECK(
      integers.outputs[1].score ==
      right(predict_all(model.integers(Requantization::FloatMultiply), waves(), 1)[1].tensor));
}

TEST_CASE("outputs: inputs whose samples have no elements are refused") {
  Network net;
  const Model model(linear(net.input("x", {0}), 2), 1);
  data::Dataset set;
  set.add("x", Tensor::of<float>({3, 0}, std::vector<float>()));
  CHECK(error_text<ArgumentError>([&] { (void)predict(model, set); }) ==
        "Input %0 'x': a sample has no elements, expected at least 1");
}

TEST_CASE("outputs: a quantized answer has the name of its value, unless that is an answer") {
  for (const bool both : {false, true}) {
    CAPTURE(both);
    test::Net net({2, 3});
    const NodeId y = net.add(Tanh{}, {net.x}, "y");
    const NodeId q = add_quantizer(net.graph, y, quantize::activations(8), "y");
    const NodeId z = net.add(Relu{}, {q});
    net.graph.set_outputs(both ? std::vector{q, y, z} : std::vector{q, z});
    CHECK(answer_name(net.graph, q) == (both ? "y.quantized" : "y"));
    CHECK(answer_name(net.graph, z) == net.graph.name(z));
  }
  // So has an activation without a label that of its layer.
  for (const bool both : {false, true}) {
    CAPTURE(both);
    test::Net net({2, 3});
    const NodeId y = net.layer(net.x, 4, "embedding");
    const NodeId z = net.add(Relu6{}, {net.add(Relu{}, {y})});
    net.graph.set_outputs(both ? std::vector{z, y} : std::vector{z});
    CHECK(answer_name(net.graph, z) == (both ? net.graph.name(z) : "embedding"));
    CHECK(answer_name(net.graph, y) == "embedding");
  }
  // A leaf may have any label.
  test::Net net({2, 3});
  const NodeId leaf = net.parameter({3}, "w.quantized");
  CHECK(answer_name(net.graph, leaf) == "w.quantized");
}

TEST_CASE("outputs: names of a program's outputs") {
  const CodeGrid grid{DType::U8, 0.5f, 3, 0, 255};
  test::ProgramBuilder b(Requantization::OnnxQdq);
  const ProgramNodeId x = b.codes({2, 3}, grid);
  const ProgramNodeId y =
      b.add(integer::Structure<Reshape>{{.shape = {-1, 3}}}, {x}, "y.quantized");
  const ProgramNodeId floats = b.add(integer::Dequantize{}, {y}, "y.quantized.value");
  const ProgramNodeId other = b.add(integer::Dequantize{}, {y}, "other");
  CHECK(output_name(b.program, y) == "y");
  CHECK(output_name(b.program, floats) == "y");
  CHECK(output_name(b.program, other) == "other");
  (void)b.add(integer::Dequantize{}, {y}, "y");
  CHECK(output_name(b.program, floats) == "y.quantized");
  CHECK(output_name(b.program, b.add(integer::Dequantize{}, {y})) == "y.quantized");
}
