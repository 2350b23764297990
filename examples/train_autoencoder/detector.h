// Measures how well an autoencoder distinguishes anomalous samples from normal ones.
#pragma once

#include <array>
#include <functional>

#include "qtape/data/generated/spectra.h"

namespace qtape::examples::autoencoder {

struct Detection {
  /// Area under the ROC curve of the scores of normal and anomalous samples, see
  /// area_under_curve.
  double auc = 0;
  /// For each kind of fault alone, in the order of Fault; NaN if the set has none.
  std::array<double, 5> auc_by_fault{};
  double normal = 0;     ///< mean score
  double anomalous = 0;  ///< mean score
};

/// Returns the answers of a model or an integer program to samples: f32 [size,
/// spectrum_features].
using Reconstruct = std::function<Tensor(const data::Dataset& samples)>;

/// Scores the test samples by the mean squared difference between sample and reconstruction.
/// Throws ArgumentError for an empty set, GraphError for a reconstruction that is not finite,
/// which means that training diverged.
Detection detect(const Reconstruct& reconstruct, const data::SpectraSplit& data);

}  // namespace qtape::examples::autoencoder
