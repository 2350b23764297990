// Batches: samples of each training step, and their augmentation.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "qtape/core/random.h"
#include "qtape/data/dataset.h"

namespace qtape::data {

/// Samples of each training step: full batches in an order that is a pure function of the seed
/// and the epoch, so a resumed run uses the same samples. The last partial batch of an epoch is
/// omitted.
class EpochOrder {
 public:
  /// Throws ArgumentError unless 1 <= `batch` <= `samples`.
  EpochOrder(int64_t samples, int64_t batch, uint64_t seed);
  /// Variant that returns only `count` samples of each batch, from position `first` on. Throws
  /// ArgumentError if a batch does not have them.
  EpochOrder(int64_t samples, int64_t batch, uint64_t seed, int64_t first, int64_t count);

  /// Number of samples of an epoch, those of an incomplete last batch included.
  int64_t samples() const { return static_cast<int64_t>(order_.size()); }
  /// Number of batches per epoch.
  int64_t per_epoch() const { return static_cast<int64_t>(order_.size()) / batch_; }
  /// The samples of training step `step`. Throws ArgumentError for negative steps.
  std::span<const int64_t> at(int64_t step);

 private:
  void shuffle(int64_t epoch);

  int64_t batch_;
  int64_t first_;
  int64_t count_;
  uint64_t seed_;
  int64_t epoch_ = -1;
  std::vector<int64_t> order_;
};

/// Random augmentation of the inputs of training samples, drawn for each sample and step: a
/// pure function of seed, step and position in the batch.
struct Augmentation {
  double shift = 0;     ///< largest shift along each axis, in pixels
  double rotation = 0;  ///< largest rotation about the centre, in degrees
  double noise = 0;     ///< standard deviation of the noise added to every element

  /// True if images are shifted or rotated.
  bool moves() const { return shift > 0 || rotation > 0; }
  /// True if any augmentation is active.
  bool any() const { return moves() || noise > 0; }
};

/// Throws ArgumentError for a setting that is negative, NaN or infinite.
void validate(const Augmentation& augmentation);

/// Reads samples with augmentation. Images, [h, w] or [h, w, channels], are shifted and
/// rotated; pixels from outside the image are 0. All columns of a sample move by the same
/// amount.
class Augmenter {
 public:
  /// `steps` is the number of steps of an epoch, used for the random numbers of maps. `first`
  /// is the position in the batch of the samples at place 0. Throws ArgumentError like
  /// validate, and for negative positions.
  Augmenter(const Augmentation& augmentation, uint64_t seed, int64_t steps, int64_t first = 0);

  /// Draw for the maps of data sets in training step `step`.
  Draw draw_at(int64_t step) const { return {seed_, step / steps_}; }
  /// Reads `column` of `sample`, at `place` of the samples of training step `step`:
  /// applies the maps of the data set, then the augmentation. Targets are not augmented.
  void read(const Dataset& dataset, size_t column, int64_t sample, int64_t step, size_t place,
            std::span<float> to);

 private:
  Augmentation augmentation_;
  uint64_t seed_;
  int64_t steps_;
  size_t first_;
  std::vector<float> image_;
};

}  // namespace qtape::data
