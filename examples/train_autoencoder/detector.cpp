#include "qtape/examples/train_autoencoder/detector.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "qtape/model/area_under_curve.h"

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

/// Returns NaN if the set has no such fault.
double auc_of(data::Fault fault, const data::Spectra& spectra, std::span<const double> normal,
              std::span<const double> anomalous) {
  std::vector<double> chosen;
  for (size_t i = 0; i < anomalous.size(); ++i) {
    if (spectra.faults[i] == fault) chosen.push_back(anomalous[i]);
  }
  if (chosen.empty()) return std::numeric_limits<double>::quiet_NaN();
  return area_under_curve(normal, chosen);
}

std::vector<double> scores(const Reconstruct& reconstruct, const data::Spectra& spectra) {
  constexpr auto features = static_cast<size_t>(data::spectrum_features);
  const Tensor reconstructed = reconstruct(spectra.samples);
  const std::span y(reinterpret_cast<const float*>(reconstructed.data.data()),
                    static_cast<size_t>(reconstructed.type.elements()));
  const std::span<const float> x = spectra.features();
  std::vector<double> scores;
  for (size_t at = 0; at < x.size(); at += features) {
    scores.push_back(squared_distance(x.subspan(at, features), y.subspan(at, features)));
    check(std::isfinite(scores.back()),
          "the reconstruction of sample {} is not finite: the training diverged",
          scores.size() - 1);
  }
  return scores;
}

}  // namespace

Detection detect(const Reconstruct& reconstruct, const data::SpectraSplit& data) {
  const std::vector<double> normal = scores(reconstruct, data.normal);
  const std::vector<double> anomalous = scores(reconstruct, data.anomalous);
  Detection result{.auc = area_under_curve(normal, anomalous),
                   .normal = mean(normal),
                   .anomalous = mean(anomalous)};
  for (size_t kind = 0; kind < result.auc_by_fault.size(); ++kind) {
    result.auc_by_fault[kind] =
        auc_of(static_cast<data::Fault>(kind + 1), data.anomalous, normal, anomalous);
  }
  return result;
}

}  // namespace qtape::examples::autoencoder
