// What verification feeds a model: images where it takes such, and random inputs.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "qtape/deploy/verify.h"
#include "qtape/examples/data/dataset.h"

namespace qtape::tool {

/// Samples at once: 250 where the model takes any number, else as many as it was stored with.
int64_t verification_batch(const Graph& graph);

/// What the levels made of labelled images.
struct Right {
  std::array<int64_t, 4> images{};  ///< by level: images whose label it finds
  int64_t float_differs = 0;        ///< images that L0 and L1 see differently
};

/// A verifier, and the samples it runs at once.
struct Samples {
  Verifier& verifier;
  int64_t batch;

  /// Whether the model has one input, which holds an image of the set per sample.
  bool take(const data::Dataset& images) const;
  /// Runs them all. Nothing where the first output is no score for each class.
  std::optional<Right> run_images(const data::Dataset& images);
  /// Runs random inputs that go beyond the codes that the model makes of them by half of their
  /// range on either side, each in its own density: from nearly all 0 to nearly none.
  void run_random(int64_t count, uint64_t seed);

 private:
  size_t width(size_t input) const;
};

}  // namespace qtape::tool
