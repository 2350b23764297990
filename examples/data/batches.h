// Batches: a data set in a new order each epoch, as the float pixels a network is fed.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "qtape/examples/data/dataset.h"

namespace qtape::data {

/// Writes pixels / 255 of one image to `x`.
void copy_pixels(const Dataset& dataset, int64_t image, std::span<float> x);

/// Full batches of a shuffled data set; the last partial one of an epoch is left out. The order
/// is a pure function of the seed and the epoch, so a resumed run sees what it would have seen.
class Batches {
 public:
  /// Throws ArgumentError when the set has fewer than `batch` images. `dataset` must outlive
  /// it.
  Batches(const Dataset& dataset, int64_t batch, uint64_t seed);

  int64_t per_epoch() const { return dataset_.size() / batch_; }
  /// Fills x [batch, features] and labels [batch] with the batch of training step `step`.
  void fill(int64_t step, std::span<float> x, std::span<int32_t> labels);

 private:
  void shuffle(int64_t epoch);

  const Dataset& dataset_;
  int64_t batch_;
  uint64_t seed_;
  int64_t epoch_ = -1;
  std::vector<int64_t> order_;
};

}  // namespace qtape::data
