#include "qtape/examples/classifier/training.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "qtape/data/generated/digits.h"
#include "qtape/engine/quantizers.h"
#include "qtape/examples/classifier/report.h"
#include "qtape/examples/classifier/task.h"
#include "qtape/examples/train_cnn/network.h"
#include "qtape/examples/train_mlp/network.h"
#include "qtape/io/json_document.h"
#include "qtape/model/quantization.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/folder.h"

using namespace qtape;
using examples::Architecture;
using Settings = examples::MlpSettings;

namespace {

/// Returns the smallest network with an accuracy above chance: float, without hidden layers.
Settings linear_settings() {
  return {.layers = {},
          .recipe = {.samples = 3000, .weight_bits = 0, .activation_bits = 0, .epochs = 12}};
}

/// Returns a network of a few narrow layers, which learns a little within a short time.
Settings small_settings(Architecture model) {
  return {.model = model,
          .layers = {24, 24, 17},
          .recipe = {.samples = 1280,
                     .weight_bits = 4,
                     .activation_bits = 4,
                     .epochs = 8,
                     .learning_rate = 4e-3}};
}

/// Returns a layer of 16 units, trained on this number of generated digits.
Settings narrow_settings(int64_t samples, int64_t epochs) {
  return {.layers = {16}, .recipe = {.samples = samples, .epochs = epochs}};
}

Model model_of(const Settings& settings, const data::Split& data) {
  return Model(make_network(settings, data.train), static_cast<uint64_t>(settings.recipe.seed));
}

FitOptions options_of(const Settings& settings, const data::Split& data, int threads = 1) {
  FitOptions options = examples::fit_options(settings.recipe, data.train.size());
  options.threads = threads;
  options.progress = false;
  return options;
}

examples::RunResult run(Model& model, const Settings& settings, const data::Split& data) {
  return examples::train(model, settings.recipe, data, options_of(settings, data));
}

/// Returns the labels of the quantizers, in node order.
std::vector<std::string> quantizer_labels(const Graph& graph) {
  std::vector<std::string> labels;
  for (NodeId id : quantizers(graph)) {
    const std::string& label = graph[id].label;
    labels.push_back(label.substr(0, label.size() - std::string(".quantized").size()));
  }
  return labels;
}

double accuracy_of(const Settings& settings, const data::Split& data) {
  Model model = model_of(settings, data);
  return examples::train(model, settings.recipe, data, options_of(settings, data, 2))
      .test.accuracy.value();
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

TEST_CASE("train_mlp: a float model is fine-tuned with quantizers, from its parameters") {
  const data::Split data = data::example_digits(1280);
  Settings settings = small_settings(Architecture::Residual);
  settings.recipe.weight_bits = settings.recipe.activation_bits = 0;
  Model plain = model_of(settings, data);
  const double accuracy = run(plain, settings, data).test.accuracy.value();
  const test::Folder folder;
  plain.save(folder.file("float.json"));
  const SavedModel model = load_model(folder.file("float.json"));
  for (auto mode : {ScaleOrigin::EMA, ScaleOrigin::LSQ, ScaleOrigin::PACT}) {
    CAPTURE(to_string_view(mode));
    settings.recipe.scale_mode = mode;
    settings.recipe.weight_bits = settings.recipe.activation_bits = 8;
    Model tuned = model_of(settings, data);
    CHECK(start_from(tuned, model.parameters, data.train) ==
          static_cast<int64_t>(model.parameters.entries().size()));
    CHECK(tuned.parameters().get("fc1.weight") == model.parameters.get("fc1.weight"));
    CHECK(std::abs(qtape::accuracy(tuned, data.test) - accuracy) < 4);
    tuned.save(folder.file("tuned.json"));
    const SavedModel again = load_model(folder.file("tuned.json"));
    Model next = model_of(settings, data);
    (void)start_from(next, again.parameters, data.train);
    CHECK(next.parameters().sha256() == tuned.parameters().sha256());
  }
  settings.layers.pop_back();
  Model other = model_of(settings, data);
  CHECK(test::error_text<GraphError>([&] {
          (void)start_from(other, model.parameters, data.train);
        }) == "'fc3.weight' of the saved model is f32[17, 24], the network needs f32[10, 24]");
  settings.layers = {24, 24, 17, 17};
  Model deeper = model_of(settings, data);
  CHECK(test::error_text<GraphError>([&] {
          (void)start_from(deeper, model.parameters, data.train);
        }) == "'fc4.weight' of the saved model is f32[10, 17], the network needs f32[17, 17]");
}

TEST_CASE("train_mlp: batches without a finite loss are skipped, counted and change nothing") {
  const data::Split data = data::generate_digits(2, 128, 50);
  const Settings settings = narrow_settings(128, 1);
  Model model = model_of(settings, data);
  const Tensor before = model.parameters().get("fc1.weight");
  model.set<float>("fc2.bias", std::vector<float>(10, std::numeric_limits<float>::quiet_NaN()));
  const examples::RunResult result = run(model, settings, data);
  CHECK(result.fit.skipped_batches == 2);
  CHECK(model.parameters().get("fc1.weight") == before);
  const std::string report = examples::report_json(narrow_settings(128, 1), 1, result);
  CHECK(report.find("\"skipped_batches\": 2") != std::string::npos);
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
  const examples::TrainingSettings recipe{.quantize_after = 3, .freeze_after = 9, .warm_up = 5};
  CHECK(examples::schedule_of(recipe, 90) ==
        QuantizationSchedule{.delay = 3, .freeze = 9, .freeze_norms = 60, .warm_up = 5});
  CHECK(examples::schedule_of({.freeze_norms_after = 7}, 90) ==
        QuantizationSchedule{.freeze_norms = 7});
}

TEST_CASE("train_mlp: few bits learn their scales, after a third of a run in float") {
  using examples::TrainingSettings;
  for (const int64_t bits : {2, 3}) {
    for (const TrainingSettings& recipe :
         {TrainingSettings{.weight_bits = bits}, {.activation_bits = bits}}) {
      CHECK(examples::scale_mode_of(recipe) == ScaleOrigin::LSQ);
      CHECK(examples::schedule_of(recipe, 90) ==
            QuantizationSchedule{.delay = 30, .freeze_norms = 60});
    }
  }
  const TrainingSettings four{.weight_bits = 4, .activation_bits = 4};
  CHECK(examples::scale_mode_of(four) == ScaleOrigin::EMA);
  CHECK(examples::schedule_of(four, 90).delay == 0);
  const TrainingSettings in_float{.weight_bits = 0, .activation_bits = 0};
  CHECK(!examples::has_few_bits(in_float));
  const TrainingSettings two{.weight_bits = 2, .activation_bits = 2};
  TrainingSettings other = two;
  other.from = "trained.json";
  CHECK(examples::schedule_of(other, 90).delay == 0);
  other = two;
  other.scale_mode = ScaleOrigin::EMA;
  CHECK(examples::schedule_of(other, 90).delay == 0);
  other = two;
  other.quantize_after = 5;
  CHECK(examples::schedule_of(other, 90).delay == 5);
}

TEST_CASE("train_cnn: ends and means of few bits have 8 where there are norms") {
  const data::Split data = data::generate_digits(2, 64, 10);
  const auto steps = [&](examples::CnnModel model, examples::TrainingSettings recipe,
                         const std::string& label) {
    const examples::CnnSettings settings{.model = model, .width = 25, .recipe = recipe};
    const Graph graph = make_network(settings, data.train);
    const CodeLimits limits = grid_of(graph, graph.at(label + ".quantized")).limits;
    return limits.q_max - limits.q_min;
  };
  constexpr auto lenet = examples::CnnModel::LeNet;
  constexpr auto resnet8 = examples::CnnModel::ResNet8;
  const examples::TrainingSettings two{.weight_bits = 2, .activation_bits = 2};
  for (const char* label : {"conv1.input", "fc.input", "fc.features"}) {
    CHECK(steps(resnet8, two, label) == 255);
  }
  CHECK(steps(resnet8, two, "conv1.weight") == 254);
  CHECK(steps(resnet8, two, "block2.conv1.weight") == 2);
  CHECK(steps(resnet8, two, "block2.conv2.input") == 3);
  CHECK(steps(lenet, two, "conv1.weight") == 2);
  CHECK(steps(lenet, two, "fc3.input") == 3);
  examples::TrainingSettings said = two;
  said.ends_bits = 5;
  said.mean_bits = 6;
  said.weight_codes = CodeRange::Full;
  CHECK(steps(lenet, said, "conv1.input") == 31);
  CHECK(steps(lenet, said, "fc3.weight") == 31);
  CHECK(steps(lenet, said, "fc2.weight") == 3);
  CHECK(steps(resnet8, said, "fc.input") == 31);
  CHECK(steps(resnet8, said, "fc.features") == 63);
}

TEST_CASE("train_mlp: held-out samples judge in the place of the test samples") {
  Settings settings{.recipe = {.samples = 120, .holdout = 20}};
  const data::Split all = settings.generate();
  const data::Split split = load_data(settings);
  CHECK(split.train.size() == 100);
  REQUIRE(split.test.size() == 20);
  std::vector<float> got(784), wanted(784);
  split.test.read(0, 0, std::span(got));
  all.train.read(0, 100, std::span(wanted));
  CHECK(got == wanted);
  settings.recipe.holdout = 120;
  CHECK(test::error_text<ArgumentError>([&] { (void)load_data(settings); }) ==
        "holdout must leave training samples, got 120 of 120");
  settings = {.digits = data::DigitKind::Hard, .recipe = {.samples = 10}};
  CHECK(data_name(settings) == "generated hard digits");
  CHECK(load_data(settings).test.size() == 4000);
}

TEST_CASE("train_mlp: every model learns in every scale mode and replays to the same bits") {
  const data::Split data = data::example_digits(1280);
  for (Architecture model : {Architecture::MLP, Architecture::Residual, Architecture::Concat}) {
    for (auto mode :
         {ScaleOrigin::EMA, ScaleOrigin::PerBatch, ScaleOrigin::LSQ, ScaleOrigin::PACT}) {
      INFO("to_string_view(model) ", to_string_view(model), ", to_string_view(mode) ",
           to_string_view(mode));
      Settings settings = small_settings(model);
      settings.recipe.scale_mode = mode;
      Model trained = model_of(settings, data);
      const examples::RunResult result = run(trained, settings, data);
      CHECK(result.test.accuracy.value() > 60);  // chance level is 10
      const test::Folder folder;
      trained.save(folder.file("m.json"));
      const Model saved = Model::load(folder.file("m.json"));
      CHECK(saved.graph() == trained.graph());
      CHECK(evaluate(saved, data.test) == result.test);
    }
  }
}

TEST_CASE("train_mlp: what each model quantizes") {
  const data::Split data = data::generate_digits(2, 64, 50);
  const auto labels = [&](Architecture model) {
    return quantizer_labels(make_network(small_settings(model), data.train));
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
  const Graph residual = make_network(small_settings(Architecture::Residual), data.train);
  const auto low = [&](const char* label) {
    return grid_of(residual, residual.at(label)).limits.q_min;
  };
  CHECK(low("fc2.branch.quantized") == -8);
  CHECK(low("fc2.skip.quantized") == 0);
  CHECK(low("fc3.skip.quantized") == -8);
  const Graph parts = make_network(small_settings(Architecture::Concat), data.train);
  for (const char* bias : {"fc1.upper.bias.quantized", "fc1.lower.bias.quantized"}) {
    CHECK(parts.name(parts[parts.at(bias)].operands[1]) == "fc1.input.quantized");
  }
  Settings plain = small_settings(Architecture::Concat);
  plain.recipe.weight_bits = plain.recipe.activation_bits = 0;
  plain.layers = {25};
  const Graph concat = make_network(plain, data.train);
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
  data::Dataset pixel;
  pixel.add("x", Tensor::of<uint8_t>({1, 1, 1}, std::vector<uint8_t>{0}));
  pixel.add_target("labels", Tensor::of<int32_t>({1}, std::vector<int32_t>{1}), 10);
  CHECK(test::error_text<ArgumentError>([&] {
          (void)make_network(small_settings(Architecture::Concat), pixel);
        }) == "model Concat needs images of at least 2 pixels, got 1");
}
