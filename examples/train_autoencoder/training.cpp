#include "qtape/examples/train_autoencoder/training.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "qtape/calibrate/calibration.h"
#include "qtape/examples/data/batches.h"
#include "qtape/examples/shared/median.h"
#include "qtape/examples/train_autoencoder/initialize.h"
#include "qtape/optim/optimizer.h"
#include "qtape/optim/schedule.h"

namespace qtape::examples::autoencoder {
namespace {

/// Samples per step of calibration, where there are so many.
constexpr int64_t calibration_batch = 250;

/// Copies the samples to the rows of x.
template <class Indices>
void fill(const data::Spectra& spectra, const Indices& samples, std::span<float> x) {
  auto row = x.begin();
  for (const int64_t sample : samples) {
    row = std::ranges::copy(spectra.sample(sample), row).out;
  }
}

/// A network with the values of `from` for all parameters that both have, and its history.
TrainedModel with_values(Network network, const Settings& settings, const TrainedModel& from) {
  Parameters parameters(network.graph, static_cast<uint64_t>(settings.seed));
  for (const ParameterEntry& entry : from.parameters.entries()) {
    parameters.set(entry.name, from.parameters.get(entry.name));
  }
  return {std::move(network), std::move(parameters), from.epochs, 0, from.skipped_batches, {}};
}

struct Stage {
  int64_t epochs;
  double learning_rate;
};

/// The objects that live as long as one training.
class Training {
 public:
  Training(TrainedModel& model, const Settings& settings, const data::SpectraSplit& data,
           const Stage& stage, const RunOptions& options)
      : model_(model),
        data_(data),
        stage_(stage),
        options_(options),
        tape_(model.network.graph, model.parameters,
              {.roots = {model.network.loss}, .threads = options.threads}),
        detector_(model.network, model.parameters, options.threads),
        order_(data.train.size(), settings.batch, static_cast<uint64_t>(settings.seed)),
        optimizer_(model.parameters, Adam{}, {}, options.threads),
        schedule_{.base = stage.learning_rate,
                  .shape = Cosine{.total = stage.epochs * order_.per_epoch()}},
        first_epoch_(static_cast<int64_t>(model.epochs.size()) + 1),
        x_(tape_.input<float>(model.network.x)) {}

  void run() {
    const int64_t steps = stage_.epochs * order_.per_epoch();
    std::vector<double> times;
    for (int64_t step = 0; step < steps; ++step) {
      const auto start = std::chrono::steady_clock::now();
      const double loss = take_step(step);
      const std::chrono::duration<double, std::micro> time =
          std::chrono::steady_clock::now() - start;
      times.push_back(time.count());
      const int64_t epoch = first_epoch_ + step / order_.per_epoch();
      if (options_.on_step) options_.on_step({step + 1, steps, epoch, loss});
      if ((step + 1) % order_.per_epoch() == 0) finish_epoch(epoch);
    }
    model_.step_us = median(times);
    model_.test = detector_.run(data_);
  }

 private:
  /// One step; the loss. A batch whose loss is not finite leaves the parameters alone.
  double take_step(int64_t step) {
    fill(data_.train, order_.at(step), x_);
    tape_.forward(mode::qat);
    const double loss = tape_.scalar(model_.network.loss);
    if (!std::isfinite(loss)) {
      ++model_.skipped_batches;
      return loss;
    }
    tape_.backward();
    optimizer_.step(schedule_.learning_rate(step));
    loss_ += loss;
    ++batches_;
    return loss;
  }

  void finish_epoch(int64_t epoch) {
    const double batches = static_cast<double>(std::max<int64_t>(1, batches_));
    model_.epochs.push_back({epoch, loss_ / batches, detector_.run(data_).auc});
    loss_ = 0;
    batches_ = 0;
    if (options_.on_epoch) options_.on_epoch(model_.epochs.back());
  }

  TrainedModel& model_;
  const data::SpectraSplit& data_;
  Stage stage_;
  const RunOptions& options_;
  Tape tape_;
  Detector detector_;
  data::EpochOrder order_;
  Optimizer optimizer_;
  Schedule schedule_;
  int64_t first_epoch_;
  std::span<float> x_;
  double loss_ = 0;
  int64_t batches_ = 0;
};

TrainedModel train_further(Network network, const Settings& settings,
                           const data::SpectraSplit& data, const TrainedModel& trained,
                           const RunOptions& options) {
  TrainedModel model = with_values(std::move(network), settings, trained);
  Training(model, settings, data, {settings.qat_epochs, settings.qat_learning_rate}, options)
      .run();
  return model;
}

}  // namespace

data::SpectraSplit load_data(const Settings& s) {
  return data::generate_spectra(static_cast<uint64_t>(s.data_seed), s.samples, s.test_samples,
                                s.test_samples);
}

TrainedModel train_float(const Settings& settings, const data::SpectraSplit& data,
                         const RunOptions& options) {
  Network network = float_network(settings);
  Parameters parameters(network.graph, static_cast<uint64_t>(settings.seed));
  TrainedModel model{std::move(network), std::move(parameters), {}, 0, 0, {}};
  initialize_by_data(model.network, model.parameters, data.train, options.threads);
  Training(model, settings, data, {settings.epochs, settings.learning_rate}, options).run();
  return model;
}

TrainedModel calibrate_float(const Settings& settings, const data::SpectraSplit& data,
                             const TrainedModel& trained, int threads) {
  TrainedModel model = with_values(fixed_network(settings), settings, trained);
  const int64_t samples = std::min(settings.calibration_samples, data.train.size());
  const int64_t rows = std::min(calibration_batch, samples);
  Tape tape(model.network.graph.with_batch(rows), model.parameters,
            {.outputs = {model.network.reconstruction}, .threads = threads});
  const BatchSource batches = [&](Tape& filled, int64_t index) {
    if ((index + 1) * rows > samples) return false;
    std::vector<int64_t> batch(static_cast<size_t>(rows));
    std::iota(batch.begin(), batch.end(), index * rows);
    fill(data.train, batch, filled.input<float>(model.network.x));
    return true;
  };
  if (settings.observer == "search") {
    (void)search_calibration(tape, batches, methods_from_data());
  } else {
    (void)calibrate(tape, batches, {.method = observer_method(settings.observer)});
  }
  model.test = Detector(model.network, model.parameters, threads).run(data);
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
