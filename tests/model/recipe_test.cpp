// Recipes for few bits, distillation, oscillations, re-estimated batch norms.
#include "qtape/model/recipe.h"

#include <doctest/doctest.h>

#include <cmath>

#include "qtape/engine/quantizers.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/rules/signs.h"
#include "qtape/model/feed.h"
#include "qtape/model/norms.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/folder.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/small_fit.h"

using namespace qtape;
using test::error_text;
using test::quiet;

namespace {

const data::Split& digits() {
  static const data::Split split = data::example_digits(1280);
  return split;
}

/// A float network with poolings, a sum, a concat and functions between its layers.
Model mixed_model(bool norms = false) {
  Network net;
  const Value x = net.input("x", {28, 28, 1});
  const Layer normed{.norm = norms};
  const Value c = max_pool(relu(conv2d(x, 4, {5, 5}, normed, {.stride = {2, 2}})), {2, 2});
  const Value d = relu(conv2d(c, 4, {3, 3}, normed, {.padding = Padding::Same}));
  const Value h = concat({flatten(avg_pool(d + c, {2, 2})), global_avg_pool(d)});
  return {linear(tanh(linear(h, 20)), 10), loss::cross_entropy};
}

Model trained_model() {
  Network net;
  const Value h = relu(linear(net.input("x", {784}), 24));
  Model model(linear(relu(linear(h, 16)), 10), loss::cross_entropy);
  (void)fit(model, digits().train, quiet(6));
  return model;
}

CodeLimits limits_of(const Model& model, const char* label) {
  return grid_of(model.graph(), model.graph().at(label)).limits;
}

}  // namespace

TEST_CASE("recipes: a quantized model has integers, whatever its layers are") {
  Model model = mixed_model();
  (void)fit(model, digits().train, quiet(1));
  for (const ScaleOrigin scales : {ScaleOrigin::EMA, ScaleOrigin::LSQ}) {
    Model small = quantized(model, {.weight_bits = 4, .activation_bits = 6, .scales = scales},
                            digits().train);
    CHECK(test::mismatch(verify(small, digits().test.first(100))) == "");
    (void)fit(small, digits().train, quiet(1));
    CHECK(test::mismatch(
              verify(small, digits().test.first(100), Requantization::SingleRounding)) == "");
    CHECK(without_quantizers(small.graph()) == model.graph());
  }
  const Model calibrated = with_quantizers(model, calibrated_quantizers(8, 8));
  CHECK(calibrated.graph().find("conv2.input.quantized"));
  // The maximum works on codes: its quantizer precedes it.
  const Node& pool = calibrated.graph()[NodeId{
      calibrated.graph()[calibrated.graph().at("conv2.input.quantized")].operands[0]}];
  CHECK(std::holds_alternative<Relu>(pool.op));
}

TEST_CASE("recipes: bits of the ends and of layers by name") {
  const Model model = trained_model();
  CHECK(layer_weights(model.graph()) ==
        std::vector<std::string>{"fc1.weight", "fc2.weight", "fc3.weight"});
  const Model ends = quantized(model, {.weight_bits = 2, .activation_bits = 3, .ends_bits = 8},
                               digits().train);
  CHECK(limits_of(ends, "fc1.weight.quantized") == CodeLimits{-127, 127});
  CHECK(limits_of(ends, "fc2.weight.quantized") == CodeLimits{-1, 1});
  CHECK(limits_of(ends, "fc2.input.quantized") == CodeLimits{0, 7});
  CHECK(limits_of(ends, "fc3.input.quantized") == CodeLimits{0, 255});
  const Model named =
      quantized(model, {.ends_bits = 8, .layers = {{.pattern = "fc1.*", .weight_bits = 3}}},
                digits().train);
  CHECK(limits_of(named, "fc1.weight.quantized") == CodeLimits{-3, 3});
  CHECK(error_text<ArgumentError>([&] {
          (void)quantized(model, {.layers = {{.pattern = "f1.weight"}}}, digits().train);
        }) == "no layer has weights 'f1.weight'; the nearest are 'fc1.weight'");
  const auto refused = [&](const QuantizationRecipe& recipe) {
    return error_text<ArgumentError>([&] { (void)quantized(model.graph(), recipe); });
  };
  CHECK(refused({.weight_bits = 1}) == "weight bits must be in 2..16, got 1");
  CHECK(refused({.activation_bits = 17}) == "activation bits must be in 2..16, got 17");
  CHECK(refused({.ends_bits = 1}) ==
        "bits of the first and the last layer must be in 2..16, got 1");
  CHECK(refused({.mean_bits = 17}) == "bits around means must be in 2..16, got 17");
  CHECK(refused({.layers = {{.pattern = "fc1.*", .weight_bits = 17}}}) ==
        "layers 'fc1.*': weight bits must be in 2..16, got 17");
  CHECK(refused({.layers = {{.pattern = "*"}, {.pattern = "fc1.*", .weight_bits = 4}}}) ==
        "layers 'fc1.*': matches only weights of preceding entries");
}

TEST_CASE("recipes: few bits learn their scales, and codes can be said") {
  const Model model = trained_model();
  const auto weight = [&](const QuantizationRecipe& recipe) {
    const Graph graph = quantized(model.graph(), recipe);
    return graph[graph.at("fc2.weight.quantized")].op;
  };
  for (const int bits : {2, 3, 4, 5, 8}) {
    CAPTURE(bits);
    CHECK(default_weight_codes(bits) == (bits <= 4 ? CodeRange::Full : CodeRange::Narrow));
    const Op op = weight({.weight_bits = bits});
    CHECK(std::holds_alternative<FakeQuantizeLSQ>(op) == (bits <= 3));
    for (const std::optional<CodeRange> said :
         std::vector<std::optional<CodeRange>>{{}, CodeRange::Narrow, CodeRange::Full}) {
      const CodeRange codes = said.value_or(CodeRange::Narrow);
      const Op learned =
          weight({.weight_bits = bits, .scales = ScaleOrigin::LSQ, .weight_codes = said});
      CHECK(std::get<FakeQuantizeLSQ>(learned).range == codes);
      const Op observed =
          weight({.weight_bits = bits, .scales = ScaleOrigin::EMA, .weight_codes = said});
      CHECK(std::get<FakeQuantize>(observed).range == codes);
      CHECK(std::get<FakeQuantize>(observed).denominator == Denominator::HalfSpan);
    }
  }
  CHECK(default_scales(8, 4) == ScaleOrigin::LSQ);
  CHECK(default_scales(3, 8) == ScaleOrigin::LSQ);
  CHECK(default_scales(4, 5) == ScaleOrigin::EMA);
  CHECK(
      error_text<ArgumentError>([&] { (void)weight({.scales = ScaleOrigin::PerBatch}); }) ==
      "activations with scales from each batch have no integers: expected scales EMA, Delayed, "
      "LSQ or PACT, got PerBatch");
  const std::string text = "weight codes must be Narrow or Full, got Unsigned";
  CHECK(error_text<ArgumentError>(
            [&] { (void)weight({.weight_codes = CodeRange::Unsigned}); }) == text);
  CHECK(error_text<ArgumentError>(
            [&] { (void)calibrated_quantizers(4, 8, CodeRange::Unsigned); }) == text);
}

TEST_CASE("recipes: all 16 codes of 4 bits reach the integers, half a span to each side") {
  Model model = with_quantizers(trained_model(), calibrated_quantizers(4, 8));
  (void)calibrate(model, digits().train);
  const auto scales =
      qparams(model.graph(), model.parameters(), model.graph().at("fc1.weight.quantized"));
  const auto w = model.parameters().at("fc1.weight").values<float>();
  float largest = 0;
  for (const float each : w.subspan(0, 784)) largest = std::max(largest, std::fabs(each));
  CHECK(scales[0].scale == double{largest / 7.5f});
  const IntegerProgram program = model.integers(Requantization::FloatMultiply);
  int lowest = 0, highest = 0;
  for (const auto& node : program.nodes()) {
    const QuantizedWeights* weights = weights_of(node.op);
    if (weights == nullptr) continue;
    CHECK(weights->storage_bits == 4);
    for (const std::byte two : weights->codes.data) {
      for (const int bits : {std::to_integer<int>(two) & 15, std::to_integer<int>(two) >> 4}) {
        const int code = bits < 8 ? bits : bits - 16;
        lowest = std::min(lowest, code);
        highest = std::max(highest, code);
      }
    }
  }
  CHECK(lowest == -8);
  CHECK(highest == 7);
  CHECK(test::mismatch(verify(model, digits().test.first(100))) == "");
}

TEST_CASE("recipes: weights before a batch norm have codes of both signs") {
  Network net;
  const Value x = net.input("x", {28, 28, 1});
  const Value y = batch_norm(conv2d(x, 4, {5, 5}, Layer{}, {.stride = {2, 2}}));
  Model model(linear(flatten(relu(y)), 10), loss::cross_entropy);
  (void)fit(model, digits().train, quiet(1));
  const QuantizationRecipe few{.weight_bits = 4, .activation_bits = 6};
  Model small = quantized(model, few, digits().train);
  CHECK(limits_of(small, "conv1.weight.quantized") == CodeLimits{-7, 7});
  CHECK(limits_of(small, "fc1.weight.quantized") == CodeLimits{-7, 7});
  const Model calibrated = with_quantizers(model, calibrated_quantizers(4, 8));
  CHECK(limits_of(calibrated, "conv1.weight.quantized") == CodeLimits{-7, 7});
  CHECK(limits_of(calibrated, "fc1.weight.quantized") == CodeLimits{-8, 7});
  const Model said = with_quantizers(model, calibrated_quantizers(4, 8, CodeRange::Full));
  CHECK(limits_of(said, "conv1.weight.quantized") == CodeLimits{-8, 7});
}

TEST_CASE("recipes: learned scales start where a first step would set them") {
  const Model model = trained_model();
  const data::Dataset few = digits().train.first(Evaluator::batch);
  for (const int bits : {2, 4, 6}) {
    CAPTURE(bits);
    const QuantizationRecipe recipe{
        .weight_bits = bits, .activation_bits = bits, .scales = ScaleOrigin::LSQ};
    const Model calibrated = quantized(model, recipe, few);
    // Each quantizer of the copy initializes its scales from its first data, in floats.
    Model cold(calibrated.graph());
    (void)cold.take_over(model.parameters());
    Tape tape(cold.graph().with_batch(Evaluator::batch), cold.parameters(),
              {.outputs = {cold.answer()}, .threads = 1});
    (void)batches_of(few, Evaluator::batch)(tape, 0);
    tape.forward(mode::observe);
    for (const NodeId id : quantizers(cold.graph())) {
      const auto got = qparams(calibrated.graph(), calibrated.parameters(), id);
      const auto wanted = qparams(cold.graph(), cold.parameters(), id);
      REQUIRE(got.size() == wanted.size());
      for (size_t c = 0; c < got.size(); ++c) {
        CHECK(got[c].scale == doctest::Approx(wanted[c].scale).epsilon(1e-6));
        CHECK(got[c].zero_point == wanted[c].zero_point);
      }
    }
  }
}

TEST_CASE("recipes: inputs that are never negative get codes without a zero point") {
  Network net;
  const Value x = net.input("x", {4, 4, 2});
  const Value y = relu(x);
  const Value z = x - y;
  const Graph& graph = z.graph();
  Signs signs(graph);
  CHECK(signs.never_negative(y.id()));
  CHECK(!signs.never_negative(x.id()));
  CHECK(!signs.never_negative(z.id()));
  const Value sum = flatten(max_pool(y, {2, 2}) + sigmoid(max_pool(x, {2, 2})));
  CHECK(Signs(graph).never_negative(sum.id()));
}

TEST_CASE("recipes: the sign of a value that is added to itself again and again") {
  Network net;
  Value x = relu(net.input("x", {4}));
  for (int i = 0; i < 100000; ++i) x = x + x;
  const Value none = x - x;
  const Signs signs(none.graph());
  CHECK(signs.never_negative(x.id()));
  CHECK(!signs.never_negative(none.id()));
}

TEST_CASE("recipes: layers with a bias train on activations with a scale for each sample") {
  Network net;
  const Value x = net.input("x", {4});
  Model model(
      linear(x, 3, {.weights = quantize::weights(8), .activations = FakeQuantize{.axis = 0}}),
      loss::cross_entropy);
  data::Dataset set;
  set.add("x", Tensor::of({6, 4}, std::span<const float>(std::vector<float>(24, 0.5f))));
  set.add_target(
      "y", Tensor::of({6}, std::span<const int32_t>(std::vector<int32_t>{0, 1, 2, 0, 1, 2})));
  CHECK(fit(model, set, {.epochs = 1, .batch = 3, .progress = false}).skipped_batches == 0);
}

TEST_CASE("recipes: signed activations have the zero point 0 everywhere") {
  const Model signed_codes = quantized(
      trained_model(), {.weight_bits = 8, .activation_bits = 16, .signed_activations = true},
      digits().train);
  const Graph& graph = signed_codes.graph();
  int64_t activations = 0;
  for (const NodeId id : quantizers(graph)) {
    for (const auto& each : qparams(graph, signed_codes.parameters(), id)) {
      CHECK(each.zero_point == 0);
    }
    activations += grid_of(graph, id).limits == CodeLimits{-32768, 32767} ? 1 : 0;
  }
  CHECK(activations == 3);
  CHECK(test::mismatch(verify(signed_codes, digits().test.first(100),
                              Requantization::DoubleRounding)) == "");
}

TEST_CASE("recipes: a model with quantizers gets new ones, and its scales do not leak") {
  const Model model = trained_model();
  Model calibrated = with_quantizers(model, calibrated_quantizers(8, 8));
  (void)calibrate(calibrated, digits().train);
  const Model four =
      quantized(calibrated, {.weight_bits = 4, .activation_bits = 4}, digits().train);
  const Model direct =
      quantized(model, {.weight_bits = 4, .activation_bits = 4}, digits().train);
  CHECK(four.graph() == direct.graph());
  CHECK(four.parameters().sha256() == direct.parameters().sha256());
}

TEST_CASE("recipes: activations that no layer reads have bits of their own") {
  Network net;
  const Value x = net.input("x", {4, 3});
  const std::vector<Value> states = gru(x, 5);
  const Model model(linear(states.back(), 2));
  const Graph graph =
      quantized(model.graph(), {.weight_bits = 4, .activation_bits = 4, .other_bits = 8});
  std::vector<bool> read(static_cast<size_t>(graph.size()), false);
  for (const Node& node : graph.nodes()) {
    if (std::holds_alternative<MatMul>(node.op)) read[at(node.operands[0])] = true;
  }
  int64_t others = 0;
  for (const NodeId id : quantizers(graph)) {
    CAPTURE(graph.name(id));
    const CodeLimits limits = grid_of(graph, id).limits;
    const bool weight = std::holds_alternative<Parameter>(graph[graph[id].operands[0]].op);
    const int64_t codes = weight ? 15 : (read[at(id)] ? 16 : 256);
    CHECK(limits.q_max - limits.q_min + 1 == codes);
    others += codes == 256 ? 1 : 0;
  }
  CHECK(others > 10);
}

TEST_CASE(
    "recipes: weights, their biases and learned scales with small values take small steps") {
  Network net;
  Model model(linear(relu(linear(net.input("x", {784}), 16)), 10), loss::cross_entropy);
  for (float& each : model.parameters().at("fc1.weight").values<float>()) each = 0.015f;
  for (float& each : model.parameters().at("fc2.weight").values<float>()) each = -0.5f;
  const auto rates = rates_of_small_values(model);
  REQUIRE(rates.size() == 2);
  CHECK(rates.at("fc1.weight") == doctest::Approx(0.5));
  CHECK(rates.at("fc1.bias") == doctest::Approx(0.5));
  Model small = quantized(model, {.weight_bits = 4, .activation_bits = 4}, digits().train);
  for (float& each : small.parameters().at("fc1.input.scale").values<float>()) each = 0.001f;
  const auto learned = rates_of_small_values(small);
  CHECK(learned.at("fc1.input.scale") == doctest::Approx(0.1));
  CHECK(!learned.contains("fc2.weight.scale"));
  for (float& each : model.parameters().at("fc1.weight").values<float>()) each = 0;
  CHECK(rates_of_small_values(model).empty());
}

TEST_CASE("recipes: a loss for a model without one") {
  Network net;
  const Value y = node(Softmax{}, {linear(net.input("x", {784}), 10)});
  Model model = with_loss(Model(y), digits().train);
  REQUIRE(model.loss());
  CHECK(model.graph().name(model.answer()) == "fc1");
  (void)fit(model, digits().train, quiet(2));
  CHECK(accuracy(model, digits().test) > 50);
  data::Dataset unlabelled;
  unlabelled.add("x", Tensor::of<float>({64, 3}, std::vector<float>(192, 0.5f)));
  Network coder;
  Model autoencoder =
      with_loss(Model(linear(relu(linear(coder.input("x", {3}), 2)), 3)), unlabelled);
  CHECK(!autoencoder.graph().find("target"));
  FitOptions options = quiet(3);
  options.batch = 16;
  const FitResult result = fit(autoencoder, unlabelled, options);
  CHECK(result.epochs.back().loss < result.epochs.front().loss);
}

TEST_CASE("distillation: the loss is what its formula says") {
  const Model teacher = trained_model();
  Model student = quantized(teacher, {.weight_bits = 3, .activation_bits = 3}, digits().train);
  const Distillation settings{.teacher = &teacher, .temperature = 3, .share = 0.75};
  constexpr int64_t batch = 16;
  const DistilledGraph graph =
      distilled(student.graph().with_batch(batch), student.answer(), *student.loss(), settings);
  Tape tape(graph.graph, student.parameters(),
            {.outputs = {student.answer(), *student.loss(), graph.loss}, .threads = 1});
  std::vector<FedInput> inputs = inputs_of(tape);
  std::erase_if(inputs, [](const FedInput& each) { return each.label == "teacher"; });
  Feed feed(inputs, digits().train);
  std::vector<int64_t> samples(batch);
  for (int64_t i = 0; i < batch; ++i) samples[static_cast<size_t>(i)] = 3 * i;
  data::Augmenter augmenter({}, 1, 1);
  feed.fill(samples, 0, augmenter);
  Teacher answers(settings, digits().train, batch, Shards{}, 1,
                  tape.input<float>(graph.probabilities));
  answers.answer(samples, 0, augmenter);
  tape.forward(mode::eval);
  const auto s = tape.value<float>(student.answer());
  data::Dataset chosen;
  std::vector<float> images;
  for (const int64_t sample : samples) {
    std::vector<float> image(784);
    digits().train.read(0, sample, std::span(image));
    images.insert(images.end(), image.begin(), image.end());
  }
  chosen.add("x", Tensor::of<float>({batch, 784}, images));
  const Tensor t = predict(teacher, chosen);
  const auto logits = t.values<float>();
  double wanted = 0;
  for (size_t row = 0; row < batch; ++row) {
    double p_sum = 0, q_sum = 0;
    for (size_t c = 0; c < 10; ++c) {
      p_sum += std::exp(double{logits[row * 10 + c]} / 3);
      q_sum += std::exp(double{s[row * 10 + c]} / 3);
    }
    for (size_t c = 0; c < 10; ++c) {
      const double p = std::exp(double{logits[row * 10 + c]} / 3) / p_sum;
      wanted -= p * (double{s[row * 10 + c]} / 3 - std::log(q_sum)) / batch;
    }
  }
  wanted = 0.25 * tape.scalar(*student.loss()) + 0.75 * 9 * wanted;
  CHECK(tape.scalar(graph.loss) == doctest::Approx(wanted).epsilon(1e-5));
}

TEST_CASE("distillation: a single logit is that of class 1 of two") {
  const auto model_of = [](float weight, bool probability) {
    Network net;
    const Value logit = linear(net.input("x", {1}), 1, {.label = "y"});
    Model model(probability ? sigmoid(logit) : logit, loss::cross_entropy(logit));
    model.set<float>("y.weight", std::vector<float>{weight});
    return model;
  };
  const bool probabilities[] = {false, true};
  for (const bool of_teacher : probabilities) {
    for (const bool of_student : probabilities) {
      const Model teacher = model_of(2, of_teacher), student = model_of(-1, of_student);
      const Distillation settings{.teacher = &teacher, .temperature = 4, .share = 1};
      const DistilledGraph graph =
          distilled(student.graph().with_batch(2), student.answer(), *student.loss(), settings);
      Tape tape(graph.graph, student.parameters(), {.outputs = {graph.loss}, .threads = 1});
      data::Dataset samples;
      samples.add("x", Tensor::of<float>({2, 1}, std::array{0.5f, -3.0f}));
      data::Augmenter augmenter({}, 1, 1);
      const std::array<int64_t, 2> both = {0, 1};
      Teacher answers(settings, samples, 2, Shards{}, 1,
                      tape.input<float>(graph.probabilities));
      answers.answer(both, 0, augmenter);
      std::ranges::copy(std::array{0.5f, -3.0f}, tape.input<float>("x").begin());
      tape.forward(mode::eval);
      double expected = 0;
      for (const double x : {0.5, -3.0}) {
        const double p = 1 / (1 + std::exp(-2 * x / 4)), q = 1 / (1 + std::exp(x / 4));
        expected -= 16 * (p * std::log(q) + (1 - p) * std::log(1 - q)) / 2;
      }
      CHECK(tape.scalar(graph.loss) == doctest::Approx(expected).epsilon(1e-6));
    }
  }
}

TEST_CASE("distillation: a student trains by it and keeps its graph") {
  const Model teacher = trained_model();
  Model student = quantized(teacher, {.weight_bits = 2, .activation_bits = 3}, digits().train);
  const Graph before = student.graph();
  FitOptions options = quiet(8);
  options.distillation = Distillation{.teacher = &teacher};
  options.augmentation = {.shift = 1};
  (void)fit(student, digits().train, options);
  CHECK(student.graph() == before);
  CHECK(accuracy(student, digits().test) > 60);
  options.distillation->share = 1.5;
  CHECK(error_text<ArgumentError>([&] { (void)fit(student, digits().train, options); }) ==
        "distillation: share must be in [0, 1], got 1.5");
  Network net;
  const Model other(linear(net.input("x", {784}), 11), loss::cross_entropy);
  options.distillation = Distillation{.teacher = &other};
  CHECK(error_text<ArgumentError>([&] { (void)fit(student, digits().train, options); }) ==
        "distillation: the student has 10 classes, the teacher 11");
  options.distillation = Distillation{.teacher = &student};
  CHECK(error_text<ArgumentError>([&] { (void)fit(student, digits().train, options); }) ==
        "distillation: the model is its own teacher, expected another one");
  Network twice;
  const Value h = twice.input("x", {784});
  const Value first = linear(h, 10), second = linear(h, 2);
  Model heads({first, second}, loss::cross_entropy(first));
  options.distillation = Distillation{.teacher = &teacher};
  CHECK(error_text<ArgumentError>([&] { (void)fit(heads, digits().train, options); }) ==
        "distillation: the student has 2 answers, 'fc1', 'fc2', expected one");
  Network values;
  const Value y = linear(values.input("x", {784}), 10);
  Model regression(y, node(MeanSquaredError{}, {y, values.input("target", {10})}));
  data::Dataset data;
  data.add("x", Tensor::of<float>({64, 784}, std::vector<float>(64 * 784, 0.5f)));
  data.add_target("target", Tensor::of<float>({64, 10}, std::vector<float>(640, 0.5f)));
  options = quiet(1);
  options.distillation = Distillation{.teacher = &teacher};
  CHECK(error_text<ArgumentError>([&] { (void)fit(regression, data, options); }) ==
        "distillation: the loss compares values, expected a cross-entropy: a teacher teaches "
        "classes");
  options = quiet(1);
  options.oscillations = {.damping = 1};
  CHECK(error_text<ArgumentError>([&] { (void)fit(regression, data, options); }) ==
        "oscillations: the model has no quantizers, whose codes could change");
  options = quiet(1);
  regression.parameters().at("fc1.bias").values<float>()[3] = INFINITY;
  CHECK(error_text<ArgumentError>([&] { (void)fit(regression, data, options); }) ==
        "parameter 'fc1.bias' is infinite before training");
}

TEST_CASE("oscillations: weights that turn back are counted, frozen, and stay on their codes") {
  const Model teacher = trained_model();
  const auto train = [&](const FitOptions& options) {
    Model student =
        quantized(teacher, {.weight_bits = 2, .activation_bits = 3, .scales = ScaleOrigin::LSQ},
                  digits().train);
    const FitResult result = fit(student, digits().train, options);
    return std::pair(std::move(student), result.frozen_weights);
  };
  FitOptions options = quiet(6);
  CHECK(train(options).second == 0);
  options.oscillations = {.freeze_above = 0.02, .momentum = 0.05};
  auto [frozen, count] = train(options);
  CHECK(count > 0);
  int64_t on_codes = 0;
  for (const char* name : {"fc1.weight", "fc2.weight", "fc3.weight"}) {
    const NodeId id = frozen.graph().at(std::string(name) + ".quantized");
    const auto scales = qparams(frozen.graph(), frozen.parameters(), id);
    const auto w = frozen.parameters().at(name).values<float>();
    const size_t row = w.size() / scales.size();
    for (size_t i = 0; i < w.size(); ++i) {
      const double quotient = double{w[i]} / scales[i / row].scale;
      on_codes += std::abs(quotient - std::nearbyint(quotient)) < 1e-2 ? 1 : 0;
    }
  }
  CHECK(on_codes >= count);
  // An interrupted and resumed run gives the same bits.
  const test::Folder folder;
  int64_t steps = 0;
  options.checkpoint = folder.file("c.json");
  options.stop = [&] { return ++steps == 70; };
  (void)train(options);
  options.stop = {};
  options.resume = true;
  Model resumed = Model::load(options.checkpoint);
  const FitResult result = fit(resumed, digits().train, options);
  CHECK(result.frozen_weights == count);
  CHECK(resumed.parameters().sha256() == frozen.parameters().sha256());
}

TEST_CASE("oscillations: damping pulls weights to their codes") {
  const Model teacher = trained_model();
  const auto distance = [&](double damping) {
    Model student =
        quantized(teacher, {.weight_bits = 3, .activation_bits = 8, .scales = ScaleOrigin::LSQ},
                  digits().train);
    FitOptions options = quiet(4);
    options.oscillations.damping = damping;
    (void)fit(student, digits().train, options);
    const NodeId id = student.graph().at("fc1.weight.quantized");
    const auto scales = qparams(student.graph(), student.parameters(), id);
    const auto w = student.parameters().at("fc1.weight").values<float>();
    double sum = 0;
    for (size_t i = 0; i < w.size(); ++i) {
      const double quotient = double{w[i]} / scales[i / 784].scale;
      sum += std::abs(quotient - std::nearbyint(quotient));
    }
    return sum / static_cast<double>(w.size());
  };
  CHECK(distance(1.0) < 0.7 * distance(0));
  FitOptions options = quiet(1);
  options.oscillations.freeze_above = 1.0;
  Model student = quantized(teacher, {}, digits().train);
  CHECK(error_text<ArgumentError>([&] { (void)fit(student, digits().train, options); }) ==
        "oscillations: freeze_above must be in (0, 1), got 1");
}

TEST_CASE("norms: statistics are measured again, and nothing else changes") {
  Model model = mixed_model(true);
  (void)fit(model, digits().train, quiet(1));
  const Tensor weight = model.parameters().get("conv1.weight");
  const Tensor mean = model.parameters().get("conv1.running_mean");
  CHECK(reestimate_norms(model, digits().train, 20) == 2);
  CHECK(model.parameters().get("conv1.weight") == weight);
  CHECK(model.parameters().get("conv1.running_mean") != mean);
  Model plain = trained_model();
  CHECK(reestimate_norms(plain, digits().train, 20) == 0);
  CHECK_THROWS_AS((void)reestimate_norms(model, digits().train, 1, 2000), ArgumentError);
}
