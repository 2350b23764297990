// Inputs of verification: data if the model accepts them, and random inputs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>

#include "qtape/data/dataset.h"
#include "qtape/deploy/verify.h"
#include "qtape/model/metric.h"

namespace qtape::tool {

/// Largest number of samples of one run.
inline constexpr int64_t largest_batch = 250;

/// Returns the batch size for `samples` samples, at most largest_batch, if the model or program
/// supports any batch size, else that with which it was stored.
int64_t verification_batch(const Graph& graph, int64_t samples);
int64_t verification_batch(const IntegerProgram& program, int64_t samples);

/// Draws `random inputs: 250 of 1000` on a terminal, and removes it at the end.
void show_progress(std::string_view what, int64_t done, int64_t all);

/// Scores of the levels on samples with labels or targets, by the metric of model and data.
struct LevelScores {
  MetricKind metric = MetricKind::Accuracy;
  std::map<Level, double> scores = {};
  /// For labels: the number of samples with a predicted class, of any position, that differs
  /// from that of L2; for L0 from that of L1, if both run.
  std::map<Level, int64_t> seen_differently = {};
};

/// A verifier, and its batch size.
struct Samples {
  Verifier& verifier;
  const Graph* graph;  ///< the verified graph; null for a program
  int64_t batch;

  /// Runs all samples of a data set and scores the first output. Returns nullopt if there is no
  /// metric. Throws ArgumentError for data that do not fit.
  std::optional<LevelScores> run_data(const data::Dataset& dataset);
  /// Runs random inputs. Their range exceeds that of the model's codes by half of it on either
  /// side, and each sample has its own density, from nearly all 0 to almost no 0.
  void run_random(int64_t count, uint64_t seed);

 private:
  std::optional<MetricChoice> metric_for(const data::Dataset& dataset) const;
};

}  // namespace qtape::tool
