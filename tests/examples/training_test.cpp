#include "qtape/examples/train_mlp/training.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "qtape/engine/json_document.h"
#include "qtape/engine/quantizers.h"
#include "qtape/examples/data/batches.h"
#include "qtape/examples/data/digits.h"
#include "qtape/examples/train_mlp/report.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/folder.h"

using namespace qtape;
using examples::Architecture;
using examples::Settings;
using examples::Training;

namespace {

/// The smallest network whose training can be told from guessing: no hidden layer, float.
Settings linear_settings() {
  return {.samples = 3000, .layers = {}, .weight_bits = 0, .activation_bits = 0, .epochs = 12};
}

/// A network of few narrow layers, which learns a little within a moment.
Settings small_settings(Architecture model) {
  return {.samples = 1280,
          .model = model,
          .layers = {24, 24, 17},
          .weight_bits = 4,
          .activation_bits = 4,
          .epochs = 8,
          .learning_rate = 4e-3};
}

/// Labels of the quantizers, in the order of their nodes.
std::vector<std::string> quantizer_labels(const Graph& graph) {
  std::vector<std::string> labels;
  for (NodeId id : quantizers(graph)) {
    const std::string& label = graph[id].label;
    labels.push_back(label.substr(0, label.size() - std::string(".quantized").size()));
  }
  return labels;
}

double accuracy_of(const Settings& settings, const data::Split& data) {
  return Training(settings, data).run({.threads = 2}).test.accuracy;
}

}  // namespace

TEST_CASE("train_mlp: generated digits are too hard for a linear model and not for a network") {
  const data::Split data = data::example_digits(3000);
  Settings settings = linear_settings();
  const double linear = accuracy_of(settings, data);
  CHECK(linear > 70);
  CHECK(linear < 92);
  settings.layers = {128};
  settings.weight_bits = 4;
  settings.activation_bits = 4;
  CHECK(accuracy_of(settings, data) > linear + 2);
}

TEST_CASE("batches: each epoch has every image once, in an order of its own") {
  data::Dataset set{.rows = 1, .cols = 1, .classes = 10, .pixels = {}, .labels = {}};
  for (int i = 0; i < 30; ++i) {
    set.pixels.push_back(static_cast<uint8_t>(i));
    set.labels.push_back(i % 10);
  }
  data::Batches batches(set, 10, 3);
  CHECK(batches.per_epoch() == 3);
  std::vector<float> x(10);
  std::vector<int32_t> labels(10);
  const auto epoch = [&](int64_t first) {
    std::vector<float> all;
    for (int64_t step = first; step < first + 3; ++step) {
      batches.fill(step, x, labels);
      for (size_t i = 0; i < 10; ++i) CHECK(std::lround(x[i] * 255) % 10 == labels[i]);
      all.insert(all.end(), x.begin(), x.end());
    }
    return all;
  };
  auto one = epoch(0);
  auto two = epoch(3);
  CHECK(one != two);
  CHECK(epoch(0) == one);
  std::ranges::sort(one);
  std::ranges::sort(two);
  CHECK(one == two);
}

TEST_CASE("evaluate: the last partial batch counts, and only its own images") {
  const data::Split data = data::generate_digits(2, 64, 130);
  Training training({.samples = 64, .layers = {16}, .epochs = 1}, data);
  (void)training.run({.threads = 1});
  data::Evaluator evaluator(training.network().graph, training.parameters(), 1);
  const data::Evaluation whole = evaluator.run(data.test);
  data::Dataset part = data.test;
  part.labels.resize(129);
  part.pixels.resize(static_cast<size_t>(129 * part.features()));
  CHECK(evaluator.run(part).outputs_sha256 != whole.outputs_sha256);
  CHECK(evaluator.run(data.test) == whole);
  data::Dataset other = data.test;
  other.rows = 14;
  CHECK(test::error_text<ArgumentError>([&] { (void)evaluator.run(other); }) ==
        "images have 392 pixels, the model takes 784");
}

TEST_CASE("evaluate: a model without one row of outputs per image is refused") {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {8, 784}}, {}, "x");
  graph.set_outputs({graph.add(Mean{.axes = {0}, .keep_dims = true}, {x}, "mean")});
  Parameters parameters(graph, 1);
  CHECK(test::error_text<GraphError>([&] { data::Evaluator bad(graph, parameters, 1); }) ==
        "Mean %1 'mean' (%0 'x' f32[250, 784]): expected one row of outputs per image, got "
        "f32[1, 784] for 250 images");
}

TEST_CASE("train_mlp: batches without a finite loss are skipped, counted and change nothing") {
  const data::Split data = data::generate_digits(2, 128, 50);
  Training training({.samples = 128, .layers = {16}, .epochs = 1}, data);
  const Tensor before = training.parameters().get("fc1.weight");
  std::vector<float> bias(10, std::numeric_limits<float>::quiet_NaN());
  training.parameters().set("fc2.bias", Tensor::of<float>({10}, bias));
  const examples::RunResult result = training.run({.threads = 1});
  CHECK(result.skipped_batches == 2);
  CHECK(training.parameters().get("fc1.weight") == before);
  const std::string report = examples::report_json(training.settings(), 1, result);
  CHECK(report.find("\"skipped_batches\": 2") != std::string::npos);
}

TEST_CASE("train_mlp: the report holds settings, epochs and results") {
  const data::Split data = data::generate_digits(2, 64, 50);
  const Settings settings{.samples = 64, .layers = {16}, .epochs = 2};
  Training training(settings, data);
  const examples::RunResult result = training.run({.threads = 1});
  CHECK(result.epochs.size() == 2);
  CHECK(result.skipped_batches == 0);
  const std::string report = examples::report_json(settings, 1, result);
  for (const char* key : {"\"settings\"", "\"epochs\"", "\"step_us\"", "\"test_accuracy\"",
                          "\"parameters_sha256\"", "\"skipped_batches\""}) {
    CHECK(report.find(key) != std::string::npos);
  }
}

TEST_CASE("train_mlp: the report holds every setting") {
  const auto reported = [](const Settings& settings) {
    return parse_document(examples::report_json(settings, 1, {}))["settings"];
  };
  const Settings settings{.data = "digits",
                          .model = Architecture::Concat,
                          .layers = {9},
                          .exact = Requantization::SingleRounding,
                          .freeze_after = 9};
  const Json json = reported(settings);
  size_t fields = 0;
  for_each_field<Settings>([&](const auto& each) {
    CAPTURE(each.key);
    CHECK(json.at(std::string(each.key)) == write_json(settings.*each.member));
    ++fields;
  });
  CHECK(json.size() == fields + 2);  // threads and isa
  const Json usual = reported({});
  CHECK(usual.at("data") == "generated digits");
  CHECK(usual.at("freeze_after").is_null());
}

TEST_CASE("train_mlp: the schedule of the tape is that of the settings") {
  const Settings settings{.quantize_after = 3, .freeze_after = 9, .warm_up = 5};
  CHECK(examples::schedule_of(settings) ==
        QuantizationSchedule{.delay = 3, .freeze = 9, .warm_up = 5});
  CHECK(examples::schedule_of({}) == QuantizationSchedule{});
}

TEST_CASE("train_mlp: a run that is stopped leaves a checkpoint of that step") {
  const data::Split data = data::generate_digits(2, 128, 50);
  const Settings settings{.samples = 128, .layers = {16}, .epochs = 3};
  const test::Folder folder;
  const std::string path = folder.file("c.json");
  int64_t steps = 0;
  Training stopped(settings, data);
  const examples::RunResult part =
      stopped.run({.threads = 1, .checkpoint = path, .stop = [&] { return ++steps == 3; }});
  CHECK(part.stopped);
  CHECK(part.epochs.size() == 1);
  CHECK(stopped.step() == 3);
  CHECK(stopped.steps() == 6);
  Training resumed(load_model(path), data);
  CHECK(resumed.step() == 3);
  const examples::RunResult rest = resumed.run({.threads = 1});
  CHECK(!rest.stopped);
  CHECK(rest.parameters_sha256 == Training(settings, data).run({}).parameters_sha256);
}

TEST_CASE("train_mlp: every model learns in every scale mode and replays to the same bits") {
  const data::Split data = data::example_digits(1280);
  for (Architecture model : {Architecture::MLP, Architecture::Residual, Architecture::Concat}) {
    for (auto mode : {examples::Quantization::EMA, examples::Quantization::PerBatch,
                      examples::Quantization::LSQ, examples::Quantization::PACT}) {
      CAPTURE(to_string_view(model));
      CAPTURE(to_string_view(mode));
      Settings settings = small_settings(model);
      settings.scale_mode = mode;
      Training training(settings, data);
      const examples::RunResult result = training.run({.threads = 1});
      CHECK(result.test.accuracy > 60);  // 10 by guessing
      const test::Folder folder;
      training.save(folder.file("m.json"));
      Model saved = load_model(folder.file("m.json"));
      CHECK(saved.graph == training.network().graph);
      CHECK(data::Evaluator(saved.graph, saved.parameters, 1).run(data.test) == result.test);
    }
  }
}

TEST_CASE("train_mlp: what each model quantizes") {
  const data::Split data = data::generate_digits(2, 64, 50);
  const auto labels = [&](Architecture model) {
    return quantizer_labels(make_network(small_settings(model), data.train).graph);
  };
  using Labels = std::vector<std::string>;
  CHECK(labels(Architecture::MLP) == Labels{"fc1.input", "fc1.weight", "fc2.input",
                                            "fc2.weight", "fc3.input", "fc3.weight",
                                            "fc4.input", "fc4.weight"});
  CHECK(labels(Architecture::Residual) ==
        Labels{"fc1.input", "fc1.weight", "fc2.input", "fc2.weight", "fc2.branch", "fc2.skip",
               "fc3.input", "fc3.weight", "fc3.skip.weight", "fc3.branch", "fc3.skip",
               "fc4.input", "fc4.weight"});
  CHECK(labels(Architecture::Concat) ==
        Labels{"fc1.input", "fc1.upper.weight", "fc1.upper.output", "fc1.lower.weight",
               "fc1.lower.output", "fc2.input", "fc2.weight", "fc3.input", "fc3.weight",
               "fc4.input", "fc4.weight"});
  const Graph residual = make_network(small_settings(Architecture::Residual), data.train).graph;
  const auto low = [&](const char* label) {
    return grid_of(residual, residual.at(label)).limits.q_min;
  };
  CHECK(low("fc2.branch.quantized") == -8);
  CHECK(low("fc2.skip.quantized") == 0);
  CHECK(low("fc3.skip.quantized") == -8);
  const Graph parts = make_network(small_settings(Architecture::Concat), data.train).graph;
  for (const char* bias : {"fc1.upper.bias.quantized", "fc1.lower.bias.quantized"}) {
    CHECK(parts.name(parts[parts.at(bias)].operands[1]) == "fc1.input.quantized");
  }
  Settings plain = small_settings(Architecture::Concat);
  plain.weight_bits = plain.activation_bits = 0;
  plain.layers = {25};
  const Graph concat = make_network(plain, data.train).graph;
  CHECK(quantizers(concat).empty());
  CHECK(concat[concat.at("fc1.upper")].type.shape == Shape{64, 12});
  CHECK(concat[concat.at("fc1.lower")].type.shape == Shape{64, 13});
}

TEST_CASE("train_mlp: models refuse layers and images that they cannot be made of") {
  const auto refusal = [](Architecture model, std::vector<int64_t> layers) {
    return test::error_text<ArgumentError>(
        [&] { validate(Settings{.model = model, .layers = std::move(layers)}); });
  };
  CHECK(refusal(Architecture::Residual, {8}) ==
        "model Residual needs at least 2 hidden layers, got 1");
  CHECK(refusal(Architecture::Concat, {}) ==
        "model Concat needs at least 1 hidden layer, got 0");
  CHECK(refusal(Architecture::Concat, {1, 8}) ==
        "model Concat needs a first hidden layer of width 2 or more, got 1");
  const data::Dataset pixel{.rows = 1, .cols = 1, .classes = 10, .pixels = {0}, .labels = {1}};
  CHECK(test::error_text<ArgumentError>([&] {
          (void)make_network(small_settings(Architecture::Concat), pixel);
        }) == "model Concat needs images of at least 2 pixels, got 1");
}
