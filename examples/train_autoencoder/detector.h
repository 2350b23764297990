// How well an autoencoder tells anomalous samples from normal ones.
#pragma once

#include <array>
#include <functional>

#include "qtape/examples/data/spectra.h"

namespace qtape::examples::autoencoder {

struct Detection {
  /// Of the scores, normal against anomalous samples: see area_under_curve.
  double auc = 0;
  /// Against one kind of fault alone, in the order of Fault; NaN where the set has none.
  std::array<double, 5> auc_by_fault{};
  double normal = 0;     ///< mean score
  double anomalous = 0;  ///< mean score
};

/// What a model or an integer program answers to samples: f32 [size, spectrum_features].
using Reconstruct = std::function<Tensor(const data::Dataset& samples)>;

/// How far the reconstructions of the test samples are from them: the mean squared difference.
/// Throws ArgumentError for an empty set, GraphError for a reconstruction that is not finite: a
/// training that diverged.
Detection detect(const Reconstruct& reconstruct, const data::SpectraSplit& data);

}  // namespace qtape::examples::autoencoder
