#include "qtape/examples/classifier/training.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "qtape/engine/json_document.h"
#include "qtape/engine/quantizers.h"
#include "qtape/examples/classifier/report.h"
#include "qtape/examples/data/batches.h"
#include "qtape/examples/data/digits.h"
#include "qtape/examples/train_mlp/network.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/folder.h"

using namespace qtape;
using examples::Architecture;
using Settings = examples::MlpSettings;

namespace {

/// The smallest network whose training can be told from guessing: no hidden layer, float.
Settings linear_settings() {
  return {.layers = {},
          .recipe = {.samples = 3000, .weight_bits = 0, .activation_bits = 0, .epochs = 12}};
}

/// A network of few narrow layers, which learns a little within a moment.
Settings small_settings(Architecture model) {
  return {.model = model,
          .layers = {24, 24, 17},
          .recipe = {.samples = 1280,
                     .weight_bits = 4,
                     .activation_bits = 4,
                     .epochs = 8,
                     .learning_rate = 4e-3}};
}

/// A layer of 16, trained on so many generated digits.
Settings narrow_settings(int64_t samples, int64_t epochs) {
  return {.layers = {16}, .recipe = {.samples = samples, .epochs = epochs}};
}

examples::Training training_of(const Settings& settings, const data::Split& data) {
  return {examples::task_of(settings, data.train), data};
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
  return training_of(settings, data).run({.threads = 2}).test.accuracy;
}

}  // namespace

TEST_CASE("train_mlp: generated digits are too hard for a linear model and not for a network") {
  const data::Split data = data::example_digits(3000);
  Settings settings = linear_settings();
  const double linear = accuracy_of(settings, data);
  CHECK(linear > 70);
  CHECK(linear < 92);
  settings.layers = {128};
  settings.recipe.weight_bits = 4;
  settings.recipe.activation_bits = 4;
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

TEST_CASE("batches: augmented images are functions of seed, step and place alone") {
  const data::Split data = data::generate_digits(2, 64, 10);
  const auto draw = [&](const data::Augmentation& augmentation, uint64_t seed, int64_t step) {
    data::Batches batches(data.train, 16, seed, augmentation);
    std::vector<float> x(static_cast<size_t>(16 * data.train.features()));
    std::vector<int32_t> labels(16);
    batches.fill(step, x, labels);
    return x;
  };
  const data::Augmentation all{.shift = 2, .rotation = 15, .noise = 0.1};
  CHECK(draw(all, 1, 3) == draw(all, 1, 3));
  CHECK(draw(all, 1, 3) != draw(all, 2, 3));
  CHECK(draw(all, 1, 3) != draw(all, 1, 7));
  CHECK(draw({.rotation = 1e-300}, 1, 3) == draw({}, 1, 3));
  // Noise has the deviation that it says, and no mean.
  const std::vector<float> plain = draw({}, 1, 3);
  const std::vector<float> noisy = draw({.noise = 0.25}, 1, 3);
  double sum = 0, squares = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    const double difference = double{noisy[i]} - double{plain[i]};
    sum += difference;
    squares += difference * difference;
  }
  const auto count = static_cast<double>(plain.size());
  CHECK(std::abs(sum / count) < 0.01);
  CHECK(std::abs(std::sqrt(squares / count) - 0.25) < 0.01);
}

TEST_CASE("batches: images move as far as they are told, and whole turns move nothing away") {
  data::Dataset set{.rows = 9, .cols = 9, .classes = 1, .pixels = {}, .labels = {0}};
  set.pixels.assign(81, 0);
  set.pixels[4 * 9 + 4] = 255;
  std::vector<float> x(81);
  std::vector<int32_t> labels(1);
  double farthest = 0;
  for (int64_t step = 0; step < 200; ++step) {
    data::Batches(set, 1, 5, {.shift = 2.5}).fill(step, x, labels);
    double total = 0, row = 0;
    for (size_t i = 0; i < 81; ++i) {
      total += double{x[i]};
      row += double{x[i]} * (static_cast<double>(i / 9) - 4);
    }
    CHECK(std::abs(total - 1) < 1e-5);
    farthest = std::max(farthest, std::abs(row));
    data::Batches(set, 1, 5, {.rotation = 180}).fill(step, x, labels);
    CHECK(std::abs(x[40] - 1) < 1e-5);  // the centre stays
  }
  CHECK(farthest > 2.3);
  CHECK(farthest <= 2.5 + 1e-5);
}

TEST_CASE("train_mlp: a float model is fine-tuned with quantizers, from its parameters") {
  const data::Split data = data::example_digits(1280);
  Settings settings = small_settings(Architecture::Residual);
  settings.recipe.weight_bits = settings.recipe.activation_bits = 0;
  examples::Training plain = training_of(settings, data);
  const double accuracy = plain.run({.threads = 1}).test.accuracy;
  const test::Folder folder;
  plain.save(folder.file("float.json"));
  const Model model = load_model(folder.file("float.json"));
  for (auto mode : {examples::Quantization::EMA, examples::Quantization::LSQ,
                    examples::Quantization::PACT}) {
    CAPTURE(to_string_view(mode));
    settings.recipe.scale_mode = mode;
    settings.recipe.weight_bits = settings.recipe.activation_bits = 8;
    examples::Training tuned = training_of(settings, data);
    CHECK(tuned.start_from(model, 1) ==
          static_cast<int64_t>(model.parameters.entries().size()));
    CHECK(tuned.parameters().get("fc1.weight") == model.parameters.get("fc1.weight"));
    data::Evaluator evaluator(tuned.network().graph, tuned.parameters(), 1);
    CHECK(std::abs(evaluator.run(data.test).accuracy - accuracy) < 4);
    tuned.save(folder.file("tuned.json"));
    const Model again = load_model(folder.file("tuned.json"));
    examples::Training next = training_of(settings, data);
    (void)next.start_from(again, 1);
    CHECK(next.parameters().sha256() == tuned.parameters().sha256());
  }
  settings.layers.pop_back();
  examples::Training other = training_of(settings, data);
  CHECK(test::error_text<GraphError>([&] { (void)other.start_from(model, 1); }) ==
        "'fc3.weight' of the saved model is f32[17, 24], the network needs f32[10, 24]");
  settings.layers = {24, 24, 17, 17};
  examples::Training deeper = training_of(settings, data);
  CHECK(test::error_text<GraphError>([&] { (void)deeper.start_from(model, 1); }) ==
        "'fc4.weight' of the saved model is f32[10, 17], the network needs f32[17, 17]");
}

TEST_CASE("evaluate: the last partial batch counts, and only its own images") {
  const data::Split data = data::generate_digits(2, 64, 130);
  examples::Training training = training_of(narrow_settings(64, 1), data);
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
  examples::Training training = training_of(narrow_settings(128, 1), data);
  const Tensor before = training.parameters().get("fc1.weight");
  std::vector<float> bias(10, std::numeric_limits<float>::quiet_NaN());
  training.parameters().set("fc2.bias", Tensor::of<float>({10}, bias));
  const examples::RunResult result = training.run({.threads = 1});
  CHECK(result.skipped_batches == 2);
  CHECK(training.parameters().get("fc1.weight") == before);
  const std::string report = examples::report_json(narrow_settings(128, 1), 1, result);
  CHECK(report.find("\"skipped_batches\": 2") != std::string::npos);
}

TEST_CASE("train_mlp: the report holds settings, epochs and results") {
  const data::Split data = data::generate_digits(2, 64, 50);
  const Settings settings = narrow_settings(64, 2);
  examples::Training training = training_of(settings, data);
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
  const Settings settings{
      .model = Architecture::Concat,
      .layers = {9},
      .recipe = {.data = "digits", .exact = Requantization::SingleRounding, .freeze_after = 9}};
  const Json json = reported(settings);
  size_t fields = 0;
  const auto check_fields = [&]<class T>(const T& part) {
    for_each_field<T>([&](const auto& each) {
      CAPTURE(each.key);
      CHECK(json.at(std::string(each.key)) == write_json(part.*each.member));
      ++fields;
    });
  };
  check_fields(settings);
  check_fields(settings.recipe);
  CHECK(json.size() == fields + 2);  // threads and isa
  const Json usual = reported({});
  CHECK(usual.at("data") == "generated digits");
  CHECK(usual.at("freeze_after").is_null());
}

TEST_CASE("train_mlp: the schedule of the tape is that of the settings") {
  const examples::Recipe recipe{.quantize_after = 3, .freeze_after = 9, .warm_up = 5};
  CHECK(examples::schedule_of(recipe, 90) ==
        QuantizationSchedule{.delay = 3, .freeze = 9, .freeze_norms = 60, .warm_up = 5});
  CHECK(examples::schedule_of({.freeze_norms_after = 7}, 90) ==
        QuantizationSchedule{.freeze_norms = 7});
}

TEST_CASE("train_mlp: a run that is stopped leaves a checkpoint of that step") {
  const data::Split data = data::generate_digits(2, 128, 50);
  const Settings settings = narrow_settings(128, 3);
  const test::Folder folder;
  const std::string path = folder.file("c.json");
  int64_t steps = 0;
  examples::Training stopped = training_of(settings, data);
  const examples::RunResult part =
      stopped.run({.threads = 1, .checkpoint = path, .stop = [&] { return ++steps == 3; }});
  CHECK(part.stopped);
  CHECK(part.epochs.size() == 1);
  CHECK(stopped.step() == 3);
  CHECK(stopped.steps() == 6);
  Model checkpoint = load_model(path);
  const auto read = examples::settings_of<Settings>(checkpoint);
  CHECK(read == settings);
  examples::Training resumed(examples::task_of(read, data.train), std::move(checkpoint), data);
  CHECK(resumed.step() == 3);
  const examples::RunResult rest = resumed.run({.threads = 1});
  CHECK(!rest.stopped);
  CHECK(rest.parameters_sha256 == training_of(settings, data).run({}).parameters_sha256);
}

TEST_CASE("train_mlp: every model learns in every scale mode and replays to the same bits") {
  const data::Split data = data::example_digits(1280);
  for (Architecture model : {Architecture::MLP, Architecture::Residual, Architecture::Concat}) {
    for (auto mode : {examples::Quantization::EMA, examples::Quantization::PerBatch,
                      examples::Quantization::LSQ, examples::Quantization::PACT}) {
      CAPTURE(to_string_view(model));
      CAPTURE(to_string_view(mode));
      Settings settings = small_settings(model);
      settings.recipe.scale_mode = mode;
      examples::Training training = training_of(settings, data);
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
  plain.recipe.weight_bits = plain.recipe.activation_bits = 0;
  plain.layers = {25};
  const Graph concat = make_network(plain, data.train).graph;
  CHECK(quantizers(concat).empty());
  CHECK(concat[concat.at("fc1.upper")].type.shape == Shape{64, 12});
  CHECK(concat[concat.at("fc1.lower")].type.shape == Shape{64, 13});
}

TEST_CASE("train_mlp: models refuse layers and images that they cannot be made of") {
  const auto refusal = [](Architecture model, std::vector<int64_t> layers) {
    return test::error_text<ArgumentError>(
        [&] { examples::validate(Settings{.model = model, .layers = std::move(layers)}); });
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
