// Observers: statistics of the input of a quantizer, and the scale and zero point computed from
// them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "qtape/calibrate/histogram.h"
#include "qtape/calibrate/observer_method.h"
#include "qtape/calibrate/observer_state.h"
#include "qtape/core/granularity.h"
#include "qtape/core/grid.h"

namespace qtape {

/// Collects the data of one tensor batch by batch and chooses a range for each channel by its
/// method: `Observer(Percentile{}, grid, 1)`, `observe`, `qparams`. A value type: copies are
/// independent.
class Observer {
 public:
  /// `channels` >= 1 is the number of scales. Throws ArgumentError as `validate` does; for a
  /// grid without q_min <= 0 < q_max within 16 bits, or with a floor that is not a positive
  /// normal f32; and for a FixedScale whose zero point is not a code of the grid.
  Observer(ObserverMethod method, const Grid& grid, int64_t channels);

  const ObserverMethod& method() const { return method_; }
  const Grid& grid() const { return grid_; }
  int64_t channels() const { return static_cast<int64_t>(records_.size()); }

  /// Adds one batch of the shape of `map`; T = float or double. NaN and infinities are counted
  /// and otherwise skipped. An empty batch changes nothing. Throws GraphError if `map` has a
  /// different number of channels or does not cover the batch.
  template <class T>
  void observe(std::span<const T> x, const ChannelMap& map);

  /// True if every channel observed a finite value. Always true for FixedScale.
  bool calibrated() const;
  /// Throws GraphError, which names a channel, unless calibrated.
  void require_calibrated() const;
  /// Range chosen by the method for each channel: within the smallest and largest value
  /// observed, and not yet extended to contain 0. For FixedScale and Lsq, the values of the
  /// first and last code. Throws GraphError unless calibrated.
  std::vector<ValueRange<double>> ranges() const;
  /// Scale and zero point of each channel on the grid. Throws GraphError unless calibrated.
  std::vector<QParams<double>> qparams() const;
  /// Number of NaN and infinite elements so far.
  int64_t non_finite() const { return non_finite_; }
  /// Number of finite elements so far.
  int64_t count() const;
  /// Discards all data.
  void reset();

  /// Adds the data of `other`. Ranges and histograms have the same bits as those of one
  /// observer of all data, regardless of the split and the order of merges. The mean and
  /// variance of ClipStd and the sums of Lsq agree up to rounding. MovingAverage depends on the
  /// order of batches; the averages of both observers are weighted by their numbers of batches.
  /// Both exceptions also apply to the candidates of a Mix. Throws GraphError, which names the
  /// difference and changes nothing, if method, grid or channels differ.
  void merge(const Observer& other);

  /// True if method, grid and all collected data are equal.
  bool operator==(const Observer&) const = default;

 private:
  void check_fits(int64_t elements, const ChannelMap& map) const;
  void require_room(int64_t more) const;

  ObserverMethod method_;
  Grid grid_;
  std::vector<detail::ChannelRecord> records_;
  detail::BinCounts bins_;
  int64_t non_finite_ = 0;
};

}  // namespace qtape
