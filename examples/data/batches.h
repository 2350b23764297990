// Batches: a data set in a new order each epoch, as the float pixels a network is fed.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "qtape/examples/data/dataset.h"

namespace qtape::data {

/// Writes pixels / 255 of one image to `x`.
void copy_pixels(const Dataset& dataset, int64_t image, std::span<float> x);

/// Fills x [batch, features] with images from `first` on, and with 0 after the last one of the
/// set; how many there are.
int64_t fill_images(const Dataset& dataset, int64_t first, std::span<float> x);

/// Which samples each training step takes: full batches in an order that is a pure function of
/// the seed and the epoch, so a resumed run sees what it would have seen. The last partial
/// batch of an epoch is left out.
class EpochOrder {
 public:
  /// `samples` and `batch` at least 1.
  EpochOrder(int64_t samples, int64_t batch, uint64_t seed);

  int64_t per_epoch() const { return static_cast<int64_t>(order_.size()) / batch_; }
  /// The samples of training step `step`, `batch` of them.
  std::span<const int64_t> at(int64_t step);

 private:
  void shuffle(int64_t epoch);

  int64_t batch_;
  uint64_t seed_;
  int64_t epoch_ = -1;
  std::vector<int64_t> order_;
};

/// What is done to training images, drawn for each image and step: a pure function of seed,
/// step and place in the batch.
struct Augmentation {
  double shift = 0;     ///< moved by up to so many pixels, in both directions alike
  double rotation = 0;  ///< turned about the centre by up to so many degrees
  double noise = 0;     ///< standard deviation of what is added to pixels within 0 to 1

  bool moves() const { return shift > 0 || rotation > 0; }
};

/// Full batches of a shuffled data set, in the order of EpochOrder.
class Batches {
 public:
  /// Throws ArgumentError when the set has fewer than `batch` images. `dataset` must outlive
  /// it.
  Batches(const Dataset& dataset, int64_t batch, uint64_t seed,
          const Augmentation& augmentation = {});

  int64_t per_epoch() const { return order_.per_epoch(); }
  /// Fills x [batch, features] and labels [batch] with the batch of training step `step`.
  void fill(int64_t step, std::span<float> x, std::span<int32_t> labels);

 private:
  const Dataset& dataset_;
  EpochOrder order_;
  uint64_t seed_;
  Augmentation augmentation_;
};

}  // namespace qtape::data
