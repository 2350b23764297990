// train_autoencoder: its networks, and short runs.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "qtape/engine/plan.h"
#include "qtape/engine/quantizers.h"
#include "qtape/examples/train_autoencoder/initialize.h"
#include "qtape/examples/train_autoencoder/report.h"
#include "qtape/tests/support/errors.h"

using namespace qtape;
using namespace qtape::examples::autoencoder;

namespace {

Settings short_settings() {
  return {.samples = 320, .test_samples = 50, .epochs = 6, .qat_epochs = 3, .batch = 32};
}

Results run(const Settings& settings, int threads) {
  const data::SpectraSplit data = load_data(settings);
  const TrainedModel start = train_float(settings, data, {.threads = threads});
  TrainedModel trained = continue_float(settings, data, start, {.threads = threads});
  TrainedModel calibrated = calibrate_float(settings, data, trained, threads);
  TrainedModel quantized = train_quantized(settings, data, start, {.threads = threads});
  Deployed calibrated_integers = deploy(calibrated, data, settings.requantization, threads);
  Deployed quantized_integers = deploy(quantized, data, settings.requantization, threads);
  return {std::move(trained), std::move(calibrated), std::move(quantized),
          std::move(calibrated_integers), std::move(quantized_integers)};
}

/// Checks that all models have seen the same number of epochs, with the first ones in common.
void check_epochs(const Settings& settings, const Results& results) {
  const auto first = static_cast<size_t>(settings.epochs);
  const size_t all = first + static_cast<size_t>(settings.qat_epochs);
  const auto& floats = results.float_model.epochs;
  const auto& trained = results.quantized.epochs;
  CHECK(floats.size() == all);
  CHECK(trained.size() == all);
  CHECK(results.calibrated.epochs.size() == all);
  for (size_t i = 0; i < all; ++i) {
    CHECK(floats[i].epoch == static_cast<int64_t>(i) + 1);
    CHECK(trained[i].epoch == floats[i].epoch);
    CHECK((trained[i].loss == floats[i].loss) == (i < first));
  }
}

/// Checks the integer programs of the trained and the calibrated model.
void check_integers(const Settings& settings, const Results& results) {
  CHECK(results.calibrated_integers.mismatches == 0);
  const Deployed& integers = results.quantized_integers;
  CHECK(integers.program.requantization() == settings.requantization);
  CHECK(integers.program.batch() == settings.batch);
  CHECK(integers.samples == 100);
  CHECK(integers.mismatches == 0);
  CHECK(std::abs(integers.test.auc - results.quantized.test.auc) < 0.01);
}

}  // namespace

TEST_CASE("train_autoencoder: both kinds of quantizers stand at the same places") {
  for (const ScaleOrigin mode : {ScaleOrigin::EMA, ScaleOrigin::LSQ}) {
    const Settings settings{.weight_bits = 4, .activation_bits = 6, .scale_mode = mode};
    const Graph fixed = fixed_network(settings);
    const Graph trained = trained_network(settings);
    const std::vector<NodeId> ids = quantizers(fixed);
    CHECK(ids.size() == 21);
    CHECK(quantizers(trained).size() == 21);
    for (const NodeId id : ids) {
      const NodeId other = trained.at(fixed[id].label);
      CHECK(grid_of(fixed, id) == grid_of(trained, other));
    }
    CHECK(fixed[fixed.outputs()[0]].label == "reconstruction.quantized");
    CHECK(trained[trained.outputs()[0]].label == "reconstruction.quantized");
  }
  CHECK(quantizers(float_network({})).empty());
}

TEST_CASE("train_autoencoder: the reconstruction needs x alone") {
  const Graph graph = trained_network({});
  Parameters parameters(graph, 1);
  Tape tape(graph, parameters, {.outputs = {graph.outputs()[0]}, .threads = 1});
  CHECK(!tape.memory().nodes[at(graph.at("loss"))].needed);
}

TEST_CASE("train_autoencoder: units of fresh layers have the moments that were asked for") {
  const Settings settings = short_settings();
  const data::Spectra samples = load_data(settings).train;
  Model model(float_network(settings), 3);
  initialize_by_data(model, samples, 1);
  std::vector<NodeId> layers;
  for (const std::string& label : layer_labels()) layers.push_back(model.graph().at(label));
  Tape tape(model.graph().with_batch(settings.samples), model.parameters(),
            {.outputs = layers, .threads = 1});
  std::ranges::copy(samples.features(), tape.input<float>("x").begin());
  tape.forward(mode::float_eval);
  for (const size_t layer : {0u, 3u, 4u, 8u}) {
    const auto y = tape.value<float>(layers[layer]);
    double sum = 0, squares = 0;
    for (const float each : y) {
      sum += static_cast<double>(each);
      squares += static_cast<double>(each) * static_cast<double>(each);
    }
    const auto count = static_cast<double>(y.size());
    const double mean = layer == 4 ? 1.0 : 0.0;
    CHECK(sum / count == doctest::Approx(mean).epsilon(1e-3));
    CHECK(squares / count == doctest::Approx(1.0 + mean).epsilon(1e-3));
  }
}

TEST_CASE("train_autoencoder: short runs learn and become integers, whatever the threads") {
  for (const ScaleOrigin mode : {ScaleOrigin::EMA, ScaleOrigin::LSQ}) {
    Settings settings = short_settings();
    settings.scale_mode = mode;
    settings.requantization =
        mode == ScaleOrigin::EMA ? Requantization::FloatMultiply : Requantization::OnnxQdq;
    const Results results = run(settings, 1);
    check_integers(settings, results);
    check_epochs(settings, results);
    for (const TrainedModel* model : {&results.float_model, &results.quantized}) {
      CHECK(model->epochs.back().loss < model->epochs.front().loss);
      CHECK(model->skipped_batches == 0);
      CHECK(model->test.normal < model->test.anomalous);
      CHECK(model->test.auc > 0.6);
    }
    CHECK(std::abs(results.calibrated.test.auc - results.float_model.test.auc) < 0.05);
    CHECK(run(settings, 2).quantized.model.parameters().sha256() ==
          results.quantized.model.parameters().sha256());
  }
}

TEST_CASE("train_autoencoder: table and report hold all three models") {
  Settings settings = short_settings();
  settings.epochs = 1;
  settings.qat_epochs = 1;
  settings.observer = "search";
  const Results results = run(settings, 2);
  const std::string table = report_table(settings, results);
  const std::string report = report_json(settings, 1, results);
  for (const char* name : {"float", "calibrated W8A8", "calibrated, deployed", "trained W8A8",
                           "trained, deployed", "RaisedNoise", "100 samples, 0 mismatches"}) {
    CHECK(table.find(name) != std::string::npos);
  }
  for (const char* key :
       {"\"settings\"", "\"float\"", "\"calibrated\"", "\"trained\"", "\"auc\"",
        "\"auc_by_fault\"", "\"parameters_sha256\"", "\"deployed\"", "\"mismatches\": 0"}) {
    CHECK(report.find(key) != std::string::npos);
  }
}

TEST_CASE("train_autoencoder: a model that diverged is an error, not an AUC") {
  const Settings settings = short_settings();
  const data::SpectraSplit data = load_data(settings);
  Model model(float_network(settings), 1);
  model.set<float>("fc10.bias",
                   std::vector<float>(640, std::numeric_limits<float>::quiet_NaN()));
  const Reconstruct reconstruct = [&](const data::Dataset& set) { return predict(model, set); };
  CHECK(test::error_text<GraphError>([&] { (void)detect(reconstruct, data); }) ==
        "the reconstruction of sample 0 is not finite: the training diverged");
}

TEST_CASE("train_autoencoder: settings out of their range are named") {
  const auto error = [](const Settings& settings) {
    return test::error_text<ArgumentError>([&] { validate(settings); });
  };
  CHECK(error({.weight_bits = 1}) == "weight bits must be in 2..8, got 1");
  CHECK(error({.activation_bits = 17}) == "activation bits must be in 2..16, got 17");
  CHECK(error({.calibration_samples = 0}) ==
        "calibration samples must be in 1..1000000, got 0");
  CHECK(error({.batch = 4001}) == "batch must be in 1..4000, got 4001");
  CHECK(error({.learning_rate = -1}) == "learning rate must be in [0, 10], got -1");
  CHECK(error({.observer = "Mean"}).find("MovingAverage") != std::string::npos);
}
