// What verification feeds a model: data where it takes them, and random inputs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "qtape/data/dataset.h"
#include "qtape/deploy/verify.h"
#include "qtape/model/metric.h"

namespace qtape::tool {

/// Samples at once: 250 where the model takes any number, else as many as it was stored with.
int64_t verification_batch(const Graph& graph);

/// What the levels made of samples with labels or targets, by the metric of model and data.
struct LevelScores {
  MetricKind metric = MetricKind::Accuracy;
  std::map<Level, double> scores = {};
  /// Of labels: samples that a level sees differently than L2; L0 than L1, where both run.
  std::map<Level, int64_t> seen_differently = {};
};

/// A verifier, and the samples it runs at once.
struct Samples {
  Verifier& verifier;
  const Graph& graph;  ///< that is verified
  int64_t batch;

  /// Runs all of a data set and scores the first output. Nothing where there is no metric.
  /// Throws ArgumentError for data that do not fit.
  std::optional<LevelScores> run_data(const data::Dataset& dataset);
  /// Runs random inputs that go beyond the codes that the model makes of them by half of their
  /// range on either side, each in its own density: from nearly all 0 to nearly none.
  void run_random(int64_t count, uint64_t seed);

 private:
  size_t width(size_t input) const;
  std::optional<MetricChoice> metric_for(const data::Dataset& dataset) const;
};

}  // namespace qtape::tool
