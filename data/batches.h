// Batches: which samples each training step takes, and what is done to them.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "qtape/core/random.h"
#include "qtape/data/dataset.h"

namespace qtape::data {

/// Which samples each training step takes: full batches in an order that is a pure function of
/// the seed and the epoch, so a resumed run sees what it would have seen. The last partial
/// batch of an epoch is left out.
class EpochOrder {
 public:
  /// Throws ArgumentError unless `batch` is within 1 and `samples`.
  EpochOrder(int64_t samples, int64_t batch, uint64_t seed);

  /// Batches of an epoch.
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

/// What is done to the inputs of training samples, drawn for each sample and step: a pure
/// function of seed, step and place in the batch.
struct Augmentation {
  double shift = 0;     ///< moved by up to so many pixels, in both directions alike
  double rotation = 0;  ///< turned about the centre by up to so many degrees
  double noise = 0;     ///< standard deviation of what is added to every number

  /// Whether images move.
  bool moves() const { return shift > 0 || rotation > 0; }
  /// Whether anything is done.
  bool any() const { return moves() || noise > 0; }
};

/// Reads samples with an augmentation. Images, [h, w] or [h, w, channels], move; what comes
/// from outside of them is 0. All columns of one sample move alike.
class Augmenter {
 public:
  /// `steps` are those of an epoch, for the maps of data sets.
  Augmenter(const Augmentation& augmentation, uint64_t seed, int64_t steps)
      : augmentation_(augmentation), seed_(seed), steps_(std::max<int64_t>(1, steps)) {}

  /// What maps draw random numbers for in training step `step`.
  Draw draw_at(int64_t step) const { return {seed_, step / steps_}; }
  /// What `column` has for `sample`, at `place` of the batch of training step `step`, after the
  /// maps of the data set. Targets are not augmented.
  void read(const Dataset& dataset, size_t column, int64_t sample, int64_t step, size_t place,
            std::span<float> to);

 private:
  Augmentation augmentation_;
  uint64_t seed_;
  int64_t steps_;
  std::vector<float> image_;
};

}  // namespace qtape::data
