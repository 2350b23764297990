#include "qtape/examples/train_autoencoder/training.h"

#include <algorithm>

#include "qtape/examples/train_autoencoder/initialize.h"
#include "qtape/model/quantization.h"

namespace qtape::examples::autoencoder {
namespace {

Detection test(const Model& model, const data::SpectraSplit& data, int threads) {
  return detect([&](const data::Dataset& samples) { return predict(model, samples, threads); },
                data);
}

/// Returns a network with the values of `from` for all parameters that both have, and its
/// history.
TrainedModel with_values(Graph network, const Settings& settings, const TrainedModel& from) {
  Model model(std::move(network), static_cast<uint64_t>(settings.seed));
  (void)model.take_over(from.model.parameters());
  return {std::move(model), from.epochs, 0, from.skipped_batches, {}, {}};
}

struct Stage {
  int64_t epochs;
  double learning_rate;
};

void train(TrainedModel& trained, const Settings& settings, const data::SpectraSplit& data,
           const Stage& stage, const RunOptions& options) {
  Model& model = trained.model;
  const auto measure = [&] { return test(model, data, options.threads).auc; };
  const FitResult result =
      fit(model, data.train.samples,
          {.epochs = stage.epochs,
           .batch = settings.batch,
           .learning_rate = stage.learning_rate,
           .quantization = QuantizationSchedule{},
           .arithmetic = Arithmetic{},
           .metric = Metric{.name = "test AUC", .digits = 4, .measure = measure},
           .report = options.report,
           .seed = static_cast<uint64_t>(settings.seed),
           .threads = options.threads,
           .progress = options.progress,
           .loss_digits = 6});
  for (EpochResult epoch : result.epochs) {
    epoch.epoch = static_cast<int64_t>(trained.epochs.size()) + 1;
    trained.epochs.push_back(epoch);
  }
  trained.step_us = result.step_us;
  trained.report_failure = result.report_failure;
  trained.skipped_batches += result.skipped_batches;
  trained.test = test(model, data, options.threads);
}

TrainedModel train_further(Graph network, const Settings& settings,
                           const data::SpectraSplit& data, const TrainedModel& trained,
                           const RunOptions& options) {
  TrainedModel model = with_values(std::move(network), settings, trained);
  train(model, settings, data, {settings.qat_epochs, settings.qat_learning_rate}, options);
  return model;
}

}  // namespace

data::SpectraSplit load_data(const Settings& s) {
  return data::generate_spectra(static_cast<uint64_t>(s.data_seed), s.samples, s.test_samples,
                                s.test_samples);
}

TrainedModel train_float(const Settings& settings, const data::SpectraSplit& data,
                         const RunOptions& options) {
  TrainedModel model{
      Model(float_network(settings), static_cast<uint64_t>(settings.seed)), {}, 0, 0, {}};
  initialize_by_data(model.model, data.train, options.threads);
  train(model, settings, data, {settings.epochs, settings.learning_rate}, options);
  return model;
}

TrainedModel calibrate_float(const Settings& settings, const data::SpectraSplit& data,
                             const TrainedModel& trained, int threads) {
  TrainedModel model = with_values(fixed_network(settings), settings, trained);
  const data::Dataset& samples = data.train.samples;
  if (settings.observer == "search") {
    (void)search_calibration(model.model, samples, methods_from_data(),
                             settings.calibration_samples, threads);
  } else {
    (void)calibrate(model.model, samples, {.method = observer_method(settings.observer)},
                    settings.calibration_samples, threads);
  }
  model.test = test(model.model, data, threads);
  return model;
}

TrainedModel continue_float(const Settings& settings, const data::SpectraSplit& data,
                            const TrainedModel& trained, const RunOptions& options) {
  return train_further(float_network(settings), settings, data, trained, options);
}

TrainedModel train_quantized(const Settings& settings, const data::SpectraSplit& data,
                             const TrainedModel& trained, const RunOptions& options) {
  return train_further(trained_network(settings), settings, data, trained, options);
}

}  // namespace qtape::examples::autoencoder
