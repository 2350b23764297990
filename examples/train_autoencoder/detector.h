// How well an autoencoder tells anomalous samples from normal ones.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <vector>

#include "qtape/engine/tape.h"
#include "qtape/examples/data/spectra.h"
#include "qtape/examples/train_autoencoder/network.h"

namespace qtape::examples::autoencoder {

struct Detection {
  /// Of the scores, normal against anomalous samples: see area_under_curve.
  double auc = 0;
  /// Against one kind of fault alone, in the order of Fault; NaN where the set has none.
  std::array<double, 5> auc_by_fault{};
  double normal = 0;     ///< mean score
  double anomalous = 0;  ///< mean score
};

/// Samples per run of what a detector runs.
constexpr int64_t detector_batch = 250;

/// Something that reconstructs samples. The spans stay valid and hold `detector_batch` rows of
/// `data::spectrum_features` each.
struct Reconstructor {
  std::span<float> x;
  std::function<void()> run;
  std::span<const float> y;  ///< of the last run
};

/// The mean squared difference of each sample from its reconstruction. Throws GraphError for
/// one that is not finite: a training that diverged.
std::vector<double> scores(const Reconstructor& reconstructor, const data::Spectra& spectra);
/// Scores of the test sets. Throws ArgumentError for an empty one.
Detection detect(const Reconstructor& reconstructor, const data::SpectraSplit& data);

/// Runs the reconstruction of a network over sets of samples. Allocates its tape once.
class Detector {
 public:
  Detector(const Network& network, Parameters& parameters, int threads);

  /// Throws as detect does.
  Detection run(const data::SpectraSplit& data);

 private:
  Tape tape_;
  NodeId x_;
  NodeId reconstruction_;
};

}  // namespace qtape::examples::autoencoder
