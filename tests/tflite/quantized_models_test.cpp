// Quantized models of TensorFlow Lite as models: their quantizers, and the programs to which
// they convert.
#include <doctest/doctest.h>

#include <algorithm>

#include "qtape/deploy/convert.h"
#include "qtape/deploy/lint.h"
#include "qtape/engine/quantizers.h"
#include "qtape/integer/program/session.h"
#include "qtape/model/fit.h"
#include "qtape/model/passes/last_softmax.h"
#include "qtape/model/recipe.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/small_fit.h"
#include "qtape/tests/support/small_nets.h"
#include "qtape/tests/tflite/random_program.h"
#include "qtape/tests/tflite/tflite_builder.h"
#include "qtape/tflite/export.h"

using namespace qtape;
using namespace qtape::tflite;
using namespace qtape::test::tflite_programs;
using test::TfliteBuilder;

namespace {

IntegerProgram converted(const SavedModel& model) {
  return convert(without_last_softmaxes(model.graph), model.parameters,
                 Requantization::DoubleRounding);
}

/// By node: true if it, or a node that it reads, is computed otherwise by a converted model.
NodeMap<char, IntegerProgram> other_nodes(const IntegerProgram& program) {
  NodeMap<char, IntegerProgram> other(program);
  for (const ProgramNodeId id : ids(program)) {
    const IntegerNode& node = program[id];
    const auto* linear = std::get_if<integer::Linear>(&node.op);
    bool found = std::holds_alternative<integer::MeanPool>(node.op) ||
                 std::holds_alternative<integer::Softmax>(node.op) ||
                 (linear != nullptr && linear->f32_scales);
    for (const ProgramNodeId each : node.operands) found = found || other[each] != 0;
    other[id] = found ? 1 : 0;
  }
  return other;
}

/// Compares the codes of every tensor of a file that no note excludes; returns the number of
/// tensors.
int64_t check_same_codes(const std::string& bytes) {
  const IntegerProgram program = parse_tflite(bytes);
  const IntegerProgram made = converted(parse_tflite_model(bytes));
  const auto other = other_nodes(program);
  const IntegerSession wanted = run(program), found = run(made);
  int64_t compared = 0;
  for (const ProgramNodeId id : ids(program)) {
    const IntegerNode& node = program[id];
    const bool named = node.value.is_codes() && !node.label.empty() && !node.operands.empty();
    if (!named || other[id] != 0) continue;
    CAPTURE(node.label);
    const std::string label = node.label == "x.codes" ? "x" : node.label;
    auto same = made.find(label + ".quantized");
    // Views and selections have no quantizer of their own.
    if (!same) same = made.find(label);
    // A view at the end gives its label to the output.
    if (!same || !made[*same].value.is_codes()) continue;
    ++compared;
    CHECK(made[*same].value.scales == node.value.scales);
    CHECK(made[*same].value.zero_point == node.value.zero_point);
    CHECK(codes_of(found, *same) == codes_of(wanted, id));
  }
  return compared;
}

bool is_fixed(const Op& op) {
  const auto* quantizer = std::get_if<FakeQuantize>(&op);
  return quantizer != nullptr && std::holds_alternative<Fixed>(quantizer->scale_mode);
}

/// A layer of codes x by weights w.
struct LayerModel : TfliteBuilder {
  int32_t x = input(codes("x", {1, 3}, 0.5f, 10));
  int32_t y = output(codes("y", {1, 2}, 0.25f, -128));

  LayerModel(const std::vector<int8_t>& w, const std::vector<float>& scales,
             const std::vector<int32_t>& b) {
    op(Builtin::FullyConnected,
       {x, constant_codes("w", {2, 3}, w, scales), integers("b", {2}, b)}, y,
       FullyConnectedOptions{.activation = Activation::Relu});
  }
};

}  // namespace

TEST_CASE("tflite models: quantizers have the scales, zero points and codes of the file") {
  const SavedModel model =
      LayerModel({-127, 5, 127, 0, -2, 3}, {0.5f, 1e-20f}, {100, -7}).imported();
  const Graph& graph = model.graph;
  for (const NodeId id : quantizers(graph)) CHECK(is_fixed(graph[id].op));
  const auto of = [&](const char* label) {
    return qparams(graph, model.parameters, graph.at(label));
  };
  CHECK(of("x.quantized") == std::vector<QParams<double>>{{0.5, 10}});
  CHECK(of("y.quantized") == std::vector<QParams<double>>{{0.25, -128}});
  CHECK(of("w.quantized") == std::vector<QParams<double>>{{0.5, 0}, {double{1e-20f}, 0}});
  CHECK(grid_of(graph, graph.at("w.quantized")).limits == CodeLimits{-127, 127});
  CHECK(grid_of(graph, graph.at("x.quantized")).limits == CodeLimits{-128, 127});
  CHECK(grid_of(graph, graph.at("x.quantized")).rounding == Rounding::HalfAway);
  CHECK(model.parameters.get("w") ==
        Tensor::of<float>({2, 3},
                          std::vector<float>{-63.5f, 2.5f, 63.5f, 0, -2 * 1e-20f, 3 * 1e-20f}));
  const Tensor bias = model.parameters.get("b");
  CHECK(bias.values<float>()[0] == 25);
  CHECK(std::holds_alternative<FakeQuantizeBias>(graph[graph.at("b.quantized")].op));
}

TEST_CASE("tflite models: weights with the code -128 have the full range") {
  const SavedModel model = LayerModel({-128, 5, 127, 0, -2, 3}, {0.5f}, {0, 0}).imported();
  CHECK(grid_of(model.graph, model.graph.at("w.quantized")).limits == CodeLimits{-128, 127});
  for (const Finding& each : lint(model.graph, model.parameters)) CHECK(each.what == "");
}

TEST_CASE("tflite models: converted weights and biases are the codes of the file") {
  const LayerModel file({-127, 5, 127, 0, -2, 3}, {0.5f, 0.0123f}, {100, -16777215});
  const IntegerProgram program = parse_tflite(file.bytes());
  const IntegerProgram made = converted(file.imported());
  const auto weights = [](const IntegerProgram& of) {
    for (const IntegerNode& node : of.nodes()) {
      if (const auto* op = std::get_if<integer::Linear>(&node.op)) return op->weights;
    }
    return QuantizedWeights{};
  };
  CHECK(weights(made) == weights(program));
  CHECK(weights(made).bias == Tensor::of<int32_t>({2}, std::vector{100, -16777215}));
}

TEST_CASE("tflite models: biases whose codes no f32 has are noted") {
  std::vector<std::string> notes;
  (void)LayerModel({1, 2, 3, 4, 5, 6}, {0.3f, 0.7f}, {1073741953, 5}).imported(&notes);
  CHECK(notes ==
        std::vector<std::string>{"biases of codes that no f32 has exactly: 'b' (1 of 2)"});
}

TEST_CASE("tflite models: a converted model has the codes of the file in every tensor") {
  CHECK(check_same_codes(to_tflite(all_layers())) == 6);
}

TEST_CASE("tflite models: random models have the codes of their files after conversion") {
  int64_t compared = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    const Codes codes = static_cast<Codes>(seed % 3);
    compared += check_same_codes(to_tflite(random_program(seed, codes)));
  }
  CHECK(compared > 150);
}

TEST_CASE("tflite models: operators of which conversion gives other codes are named") {
  std::vector<std::string> notes;
  (void)parse_tflite_model(to_tflite(all_layers()), &notes);
  REQUIRE(notes.size() == 3);
  CHECK(notes[0] ==
        "codes that may differ after conversion, since halves of the file's means are rounded "
        "away from the code 0, not from the value 0: AVERAGE_POOL_2D 'mean'");
  CHECK(notes[1] ==
        "codes that may differ after conversion, since the file's product of two scales is "
        "rounded to f32: FULLY_CONNECTED 'narrow'");
  CHECK(notes[2] ==
        "without an integer form: conversion leaves out a softmax at the end, whose operand "
        "becomes the answer: SOFTMAX 'softmax'");
}

namespace {

/// Returns the number of codes that a note states to differ; 0 without a note.
int64_t noted(const std::vector<std::string>& notes) {
  if (notes.empty()) return 0;
  const size_t at = notes[0].find(" (");
  REQUIRE(at != std::string::npos);
  return std::stoll(notes[0].substr(at + 2));
}

/// Compares the number of codes that differ between a file and its converted model with that of
/// the note, for a function of all codes of x.
void check_function(Builtin op, const Options& options, float scale, int64_t zero_point) {
  TfliteBuilder b;
  const int32_t x = b.input(b.codes("x", {1, 256}, 0.04f, 3));
  const int32_t y = b.output(b.codes("y", {1, 256}, scale, zero_point));
  b.op(op, {x}, y, options);
  std::vector<std::string> notes;
  const IntegerProgram made = converted(b.imported(&notes));
  const IntegerProgram program = parse_tflite(b.bytes());
  std::vector<std::vector<int32_t>> codes;
  for (const auto& [each, label] :
       {std::pair(&program, "y"), std::pair(&made, "y.quantized")}) {
    IntegerSession session(*each, {.reference = true});
    const auto input = session.input<float>(each->at("x"));
    for (size_t i = 0; i < 256; ++i) input[i] = static_cast<float>(int(i) - 131) * 0.04f;
    session.run();
    codes.push_back(codes_of(session, each->at(label)));
  }
  int64_t count = 0;
  for (size_t i = 0; i < 256; ++i) count += codes[0][i] != codes[1][i] ? 1 : 0;
  CHECK(count == noted(notes));
}

}  // namespace

TEST_CASE("tflite models: notes count the codes of functions that differ") {
  check_function(Builtin::Logistic, {}, 1.0f / 256, -128);
  check_function(Builtin::Tanh, {}, 1.0f / 128, 0);
  check_function(Builtin::HardSwish, {}, 0.03f, -110);
  check_function(Builtin::LeakyRelu, LeakyReluOptions{0.3f}, 0.03f, -20);
  check_function(Builtin::Relu, {}, 0.017f, -128);
}

TEST_CASE("tflite models: constants, moves and changes of scale have the codes of the file") {
  TfliteBuilder b;
  const int32_t x = b.codes("x", {1, 2, 3}, 0.02f, 5), p = b.codes("p", {1, 3, 3}, 0.02f, 5),
                s = b.codes("s", {1, 3, 3}, 0.05f, -7), c = b.codes("c", {1, 6, 3}, 0.05f, -7),
                r = b.codes("r", {1, 2, 9}, 0.05f, -7), n = b.codes("n", {1, 9}, 0.03f, 1),
                f = b.codes("f", {1, 3, 3}, 0.03f, 1), q = b.codes("q", {1, 3, 3}, 0.011f, -40),
                t = b.codes("t", {1, 3, 3}, 0.02f, 0), u = b.codes("u", {1, 3, 3}, 0.02f, 0);
  b.input(x);
  b.output(u);
  b.op(Builtin::PadV2,
       {x, b.integers("", {3, 2}, {0, 0, 1, 0, 0, 0}),
        b.constant_codes("border", {1}, {77}, {0.02f}, 0, 5)},
       p);
  b.op(Builtin::Add, {p, b.constant_codes("k", {3}, {1, -90, 120}, {0.013f}, 0, 4)}, s,
       AddOptions{Activation::Relu6});
  b.op(Builtin::Concatenation, {s, s}, c, ConcatenationOptions{.axis = 1});
  b.op(Builtin::Reshape, {c}, r);
  b.op(Builtin::Mean, {r, b.integers("", {1}, {1})}, n, ReducerOptions{});
  b.op(Builtin::Reshape, {n}, f);
  b.op(Builtin::Quantize, {f}, q);
  b.op(Builtin::Mul, {q, f}, t);
  b.op(Builtin::Relu6, {t}, u);
  CHECK(check_same_codes(b.bytes()) >= 6);
}

TEST_CASE("tflite models: a softmax is quantized where its codes are read") {
  TfliteBuilder b;
  const int32_t x = b.codes("x", {1, 4}, 0.1f, 0), s = b.codes("s", {1, 4}, 1.0f / 256, -128),
                y = b.codes("y", {1, 4}, 0.01f, 0);
  b.input(x);
  b.output(s);
  b.op(Builtin::Softmax, {x}, s, SoftmaxOptions{1});
  CHECK(quantizers(b.imported().graph).size() == 1);
  b.op(Builtin::Add, {s, x}, y);
  b.output(y);
  const SavedModel model = b.imported();
  CHECK(quantizers(model.graph).size() == 3);
  CHECK(qparams(model.graph, model.parameters, model.graph.at("s_2.quantized")) ==
        std::vector<QParams<double>>{{1.0 / 256, -128}});
}

TEST_CASE("tflite models: a fine-tuned model keeps its scales and is written again") {
  const data::Split& digits = test::small_digits();
  Layers net(5, {1, 784}, 1 / 255.0, -128);
  net.linear("fc", 10, false, grid(0.25, 0));
  Model model = with_loss(Model(parse_tflite_model(to_tflite(net.finished()))), digits.train);
  const auto scales = [&](const Model& of) {
    return qparams(of.graph(), of.parameters(), of.graph().at("fc/weights.quantized"));
  };
  const auto given = scales(model);
  const double before = accuracy(model, digits.test);
  (void)fit(model, digits.train, test::quiet(2));
  CHECK(accuracy(model, digits.test) > before);
  CHECK(scales(model) == given);
  Verifier verifier(model.graph(), model.parameters(),
                    {.convert = {.requantization = Requantization::DoubleRounding},
                     .batch = 16,
                     .levels = {Level::Exact, Level::Reference, Level::Backend}});
  test::fill_uniform(verifier.input(), Random(1, 0));
  verifier.run(16);
  CHECK(test::mismatch(verifier) == "");
  const std::string bytes = to_tflite(model.integers(Requantization::DoubleRounding));
  const SavedModel again = parse_tflite_model(bytes);
  CHECK(qparams(again.graph, again.parameters, quantizers(again.graph)[1]) == given);
}

TEST_CASE("tflite models: files that are cut or changed give an error or a model") {
  check_damaged(to_tflite(all_layers()),
                [](const std::string& bytes) { return parse_tflite_model(bytes); });
}

TEST_CASE("tflite models: tensors that quantized models cannot have") {
  const std::vector<int8_t> w = {1, 2, 3, 4, 5, 6};
  const std::string place = "operators[0] FULLY_CONNECTED 'y': ";
  LayerModel bias(w, {0.5f}, {0, 0});
  bias.model().tensors.back().type = TfliteType::Float32;
  CHECK(bias.error() == place + "tensor 'b' is FLOAT32, expected INT32");
  LayerModel floats(w, {0.5f}, {0, 0});
  floats.model().operators[0].inputs[1] =
      floats.constant("v", {2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(floats.error() ==
        place + "weights 'v' are FLOAT32, expected INT8 or INT4 as for codes");
  CHECK(LayerModel(w, {0.0f}, {0, 0}).error() ==
        place + "weights 'w' have the scale 0, expected a positive normal number");
  CHECK(LayerModel(w, {1e38f}, {0, 2000000000}).error() ==
        place +
            "bias 1 is 2000000000 steps of 4.999999840142846e+37, which is not a finite f32");
}
