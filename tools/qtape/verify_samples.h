// What verification feeds a model: data where it takes them, and random inputs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "qtape/data/dataset.h"
#include "qtape/deploy/verify.h"

namespace qtape::tool {

/// Samples at once: 250 where the model takes any number, else as many as it was stored with.
int64_t verification_batch(const Graph& graph);

/// What the levels made of labelled samples.
struct Right {
  std::map<Level, int64_t> samples = {};  ///< whose label a level finds
  /// That a level sees differently than L2; L0 than L1, where both run.
  std::map<Level, int64_t> seen_differently = {};
};

/// A verifier, and the samples it runs at once.
struct Samples {
  Verifier& verifier;
  int64_t batch;

  /// Whether a data set has what the model takes. Throws ArgumentError where it has not and was
  /// `asked_for`.
  bool takes(const data::Dataset& dataset, bool asked_for) const;
  /// Runs all of a data set. Nothing where it has no labels or the first output is no score for
  /// each class. Throws ArgumentError for data that do not fit.
  std::optional<Right> run_data(const data::Dataset& dataset);
  /// Runs random inputs that go beyond the codes that the model makes of them by half of their
  /// range on either side, each in its own density: from nearly all 0 to nearly none.
  void run_random(int64_t count, uint64_t seed);

 private:
  size_t width(size_t input) const;
};

}  // namespace qtape::tool
