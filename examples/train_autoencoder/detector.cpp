#include "qtape/examples/train_autoencoder/detector.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "qtape/examples/data/auc.h"

namespace qtape::examples::autoencoder {
namespace {

double squared_distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += difference * difference;
  }
  return sum / static_cast<double>(a.size());
}

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) /
         static_cast<double>(values.size());
}

/// NaN where the set holds no such fault.
double auc_of(data::Fault fault, const data::Spectra& spectra, std::span<const double> normal,
              std::span<const double> anomalous) {
  std::vector<double> chosen;
  for (size_t i = 0; i < anomalous.size(); ++i) {
    if (spectra.faults[i] == fault) chosen.push_back(anomalous[i]);
  }
  if (chosen.empty()) return std::numeric_limits<double>::quiet_NaN();
  return data::area_under_curve(normal, chosen);
}

}  // namespace

std::vector<double> scores(const Reconstructor& reconstructor, const data::Spectra& spectra) {
  constexpr auto features = static_cast<size_t>(data::spectrum_features);
  const auto [x, run, y] = reconstructor;
  std::vector<double> scores;
  for (int64_t first = 0; first < spectra.size(); first += detector_batch) {
    const int64_t count = std::min(detector_batch, spectra.size() - first);
    std::ranges::fill(x, 0.0f);
    for (int64_t row = 0; row < count; ++row) {
      std::ranges::copy(spectra.sample(first + row), x.begin() + row * data::spectrum_features);
    }
    run();
    for (size_t row = 0; row < static_cast<size_t>(count); ++row) {
      scores.push_back(squared_distance(x.subspan(row * features, features),
                                        y.subspan(row * features, features)));
      check(std::isfinite(scores.back()),
            "the reconstruction of sample {} is not finite: the training diverged",
            scores.size() - 1);
    }
  }
  return scores;
}

Detection detect(const Reconstructor& reconstructor, const data::SpectraSplit& data) {
  const std::vector<double> normal = scores(reconstructor, data.normal);
  const std::vector<double> anomalous = scores(reconstructor, data.anomalous);
  Detection result{.auc = data::area_under_curve(normal, anomalous),
                   .normal = mean(normal),
                   .anomalous = mean(anomalous)};
  for (size_t kind = 0; kind < result.auc_by_fault.size(); ++kind) {
    result.auc_by_fault[kind] =
        auc_of(static_cast<data::Fault>(kind + 1), data.anomalous, normal, anomalous);
  }
  return result;
}

Detector::Detector(const Network& network, Parameters& parameters, int threads)
    : tape_(network.graph.with_batch(detector_batch), parameters,
            {.outputs = {network.reconstruction},
             .threads = threads,
             .constant_parameters = true}),
      x_(network.x),
      reconstruction_(network.reconstruction) {}

Detection Detector::run(const data::SpectraSplit& data) {
  tape_.parameters_changed();
  return detect({.x = tape_.input<float>(x_),
                 .run = [this] { tape_.forward(mode::eval); },
                 .y = tape_.value<float>(reconstruction_)},
                data);
}

}  // namespace qtape::examples::autoencoder
