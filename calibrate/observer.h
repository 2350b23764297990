// Observers: what calibration remembers of the data that pass a quantizer, and the scale and
// zero point that follow from it.
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

/// Collects one tensor's data batch by batch and chooses a range for each channel by its
/// method: `Observer(Percentile{}, grid, 1)`, `observe`, `qparams`. A value type: copies go
/// their own ways.
class Observer {
 public:
  /// `channels` >= 1 is the number of scales. Throws ArgumentError as `validate` does, for a
  /// grid without q_min <= 0 < q_max within 16 bits or with a floor that is not a normal f32
  /// above 0, and for a FixedScale whose zero point is no code of the grid.
  Observer(ObserverMethod method, const Grid& grid, int64_t channels);

  const ObserverMethod& method() const { return method_; }
  const Grid& grid() const { return grid_; }
  int64_t channels() const { return static_cast<int64_t>(records_.size()); }

  /// Adds one batch, T = float or double, of the shape that `map` is for. NaN and infinities
  /// are counted and else skipped; an empty batch changes nothing. Throws GraphError when `map`
  /// has other channels or the batch reaches beyond them.
  template <class T>
  void observe(std::span<const T> x, const ChannelMap& map);

  /// Whether every channel saw a finite value. FixedScale: always.
  bool calibrated() const;
  /// The range that the method chose for each channel: within the smallest and largest value
  /// seen, and not yet widened to contain 0. FixedScale and Lsq: the values of the first and
  /// last code.
  /// Throws GraphError unless calibrated.
  std::vector<ValueRange<double>> ranges() const;
  /// Scale and zero point of each channel on the grid. Throws GraphError unless calibrated.
  std::vector<QParams<double>> qparams() const;
  /// NaN and infinite elements so far.
  int64_t non_finite() const { return non_finite_; }
  /// Finite elements so far.
  int64_t count() const;
  /// Forgets all data.
  void reset();

  /// Adds what `other` saw. However data is split over observers, and in whatever order they
  /// are merged, ranges and histograms have the same bits as those of one observer, and the
  /// mean and variance of ClipStd and the sums of Lsq agree to rounding. MovingAverage depends
  /// on the order of batches, so it has no such form: the averages of both are weighted by
  /// their batches. Both exceptions hold for the candidates of a Mix as well. Throws
  /// GraphError, which names it, when method, grid or channels differ; nothing changes then.
  void merge(const Observer& other);

  /// Whether method, grid and all that was collected are equal.
  bool operator==(const Observer&) const = default;

 private:
  void check_fits(int64_t elements, const ChannelMap& map) const;
  void require_calibrated() const;
  void require_room(int64_t more) const;

  ObserverMethod method_;
  Grid grid_;
  std::vector<detail::ChannelRecord> records_;
  detail::BinCounts bins_;
  int64_t non_finite_ = 0;
};

}  // namespace qtape
