// What the kernels of all quantizer ops share: the record of scales and zero points in use, and
// a grid applied with them to a tensor.
#pragma once

#include <cmath>
#include <limits>

#include "qtape/ops/core/half.h"
#include "qtape/ops/core/quantize_layout.h"
#include "qtape/ops/core/quantizer_op.h"
#include "qtape/ops/core/settle_kernels.h"

namespace qtape {

/// Throws GraphError unless `bits` codes exist in `range` and `floor` is a normal f32 above 0.
inline void check_grid(int bits, CodeRange range, double floor) {
  const int fewest = range == CodeRange::Unsigned ? 1 : 2;
  check(bits >= fewest && bits <= 16, "bits must be in {}..16 for range {}, got {}", fewest,
        to_string_view(range), bits);
  check(std::isfinite(floor) && floor >= double{std::numeric_limits<float>::min()} &&
            floor <= double{std::numeric_limits<float>::max()},
        "floor must be a normal f32 above 0, got {}", floor);
}

/// A quantizer's Binding::record: for each channel the scale in use, the zero point in use, 1 /
/// scale and a number of the op's own that backward reads. Tools read the first two after a
/// step.
template <class T>
struct QuantizerRecord {
  T* scale = nullptr;
  T* zero_point = nullptr;
  T* inverse = nullptr;
  T* extra = nullptr;

  static int64_t bytes(int64_t channels) {
    return 4 * static_cast<int64_t>(sizeof(T)) * channels;
  }
  QuantizerRecord(std::byte* record, int64_t channels)
      : scale(reinterpret_cast<T*>(record)),
        zero_point(scale + channels),
        inverse(zero_point + channels),
        extra(inverse + channels) {}

  void use(int64_t channel, const QParams<T>& q) const {
    scale[channel] = q.scale;
    zero_point[channel] = q.zero_point;
    inverse[channel] = T(1) / q.scale;
  }
  QParams<T> at(int64_t channel) const { return {scale[channel], zero_point[channel]}; }
};

/// What a QuantizeRun holds for every run of a tensor.
template <class T>
QuantizeRun<T> quantize_run_of(const Grid& grid, const QuantizeLayout& layout, MaskRule mask) {
  QuantizeRun<T> run;
  run.segment = layout.segment();
  run.channels = layout.channels();
  run.q_min = static_cast<T>(grid.limits.q_min);
  run.q_max = static_cast<T>(grid.limits.q_max);
  run.before = grid.zero_point == ZeroPoint::BeforeRounding;
  run.mask_by_value = mask == MaskRule::Value;
  run.half_even = grid.rounding == Rounding::HalfEven;
  run.away = grid.rounding == Rounding::HalfAway;
  run.exact = grid.division == Division::Exact;
  return run;
}

/// `base` with the record's numbers for `run`.
template <class T>
QuantizeRun<T> at_run(QuantizeRun<T> base, const QuantizerRecord<T>& record,
                      const QuantizeLayout& layout, const Run& run) {
  const int64_t first = layout.columns() ? run.channel : 0;
  base.channel = run.channel;
  base.scale = record.scale + first;
  base.zero_point = record.zero_point + first;
  base.inverse = record.inverse + first;
  base.clip = record.extra + first;
  return base;
}

/// y = fake(x) with the scales and zero points of the record.
template <class S>
class GridQuantizer {
 public:
  using T = typename Storage<S>::Compute;

  /// `mask`: where to write the mask, or null.
  GridQuantizer(const Grid& grid, const QuantizeLayout& layout, const QuantizeRun<T>& base,
                bool masked, const Binding& b)
      : grid_(grid),
        layout_(layout),
        base_(base),
        loops_(quantize_loops<S>({.rounding = grid.rounding,
                                  .division = grid.division,
                                  .masked = masked,
                                  .columns = layout.columns(),
                                  .plain = !base.before && !base.codes})),
        record_(b.record, layout.channels()),
        x_(b.operand<const S>(0)),
        y_(b.y<S>()),
        mask_(masked ? reinterpret_cast<uint64_t*>(b.saved) : nullptr),
        status_(b.status),
        threads_(b.threads) {}

  const QuantizeLayout& layout() const { return layout_; }
  const QuantizeLoops<S>& loops() const { return loops_; }
  const QuantizerRecord<T>& record() const { return record_; }
  const S* x() const { return x_; }

  void quantize(const Run& run) const {
    const QuantizeRun<T> r = at_run(base_, record_, layout_, run);
    uint64_t* mask = mask_ == nullptr ? nullptr : mask_ + run.word;
    loops_.quantize(x_ + run.offset, y_ + run.offset, mask, run.length, &r);
  }

  /// Quantizes everything, and measures the noise where it is asked for.
  void quantize_all() const {
    if (status_->measure_noise) status_->noise = noise();
    layout_.for_each_run(threads_, [&](int64_t, const Run& run) { quantize(run); });
  }

 private:
  /// Mean of (fake(x) - x)^2 over finite x. Before quantizing: the output may overwrite x.
  double noise() const {
    double sum = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < layout_.elements(); ++i) {
      const T x = Storage<S>::load(x_[i]);
      if (!std::isfinite(x)) continue;
      const QParams<T> q = record_.at(layout_.channel_of(i));
      const S fake = Storage<S>::store(value_of(code_of(x, q, grid_), q));
      const double error = double{Storage<S>::load(fake)} - double{x};
      sum += error * error;
      ++count;
    }
    return count > 0 ? sum / static_cast<double>(count) : 0.0;
  }

  Grid grid_;
  QuantizeLayout layout_;
  QuantizeRun<T> base_;
  QuantizeLoops<S> loops_;
  QuantizerRecord<T> record_;
  const S* x_;
  S* y_;
  uint64_t* mask_;
  NodeStatus* status_;
  int threads_;
};

}  // namespace qtape
