// Common parts of norms over the channels of the last axis: sums over all other axes, and maps
// with parameters per channel. Included only by the .cpp files of these ops.
#pragma once

#include <algorithm>
#include <cmath>

#include "qtape/kernels/simd/threads.h"
#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"
#include "qtape/ops/core/op.h"
#include "qtape/ops/families/channel_sums.h"

namespace qtape {

using namespace kernels;

namespace detail {

/// Adds d = x - center and d^2 for n elements or, with a gradient, dy and dy d.
template <class T, bool gradient>
auto channel_sums_loop() {
  return simd::best_for<T, const T*, const T*, const double*, double*, int64_t, int64_t>(
      [](const T* x, const T* dy, const double* center, double* sums, int64_t n,
         int64_t width) {
        double* first = sums;
        double* second = sums + width;
        for (int64_t i = 0; i < n; i += width) {
          const int64_t m = std::min(width, n - i);
          QTAPE_INDEPENDENT
          for (int64_t k = 0; k < m; ++k) {
            const double d = double{x[i + k]} - center[k];
            const double a = gradient ? double{dy[i + k]} : d;
            first[k] += a;
            second[k] += a * d;
          }
        }
      });
}

/// Parameters of a map, `width` of each.
struct ChannelTables {
  double* center;
  double* scale;
  double* slope;
  double* offset;
};

/// y = scale (x - center) + offset for n elements.
template <class T>
auto channel_map_loop() {
  return simd::best_for<T, const T*, const ChannelTables*, T*, int64_t, int64_t>(
      [](const T* x, const ChannelTables* tables, T* y, int64_t n, int64_t width) {
        const double* center = tables->center;
        const double* scale = tables->scale;
        const double* offset = tables->offset;
        for (int64_t i = 0; i < n; i += width) {
          const int64_t m = std::min(width, n - i);
          QTAPE_INDEPENDENT
          for (int64_t k = 0; k < m; ++k) {
            y[i + k] = static_cast<T>(scale[k] * (double{x[i + k]} - center[k]) + offset[k]);
          }
        }
      });
}

/// dx (+)= scale dy; with batch statistics also + slope (x - center) + offset.
template <class T, bool batch, bool accumulate>
auto channel_gradient_loop()
    -> void (*)(const T*, const T*, const ChannelTables*, T*, int64_t, int64_t) {
  return simd::best_for<T, const T*, const T*, const ChannelTables*, T*, int64_t, int64_t>(
      [](const T* x, const T* dy, const ChannelTables* tables, T* dx, int64_t n,
         int64_t width) {
        const double* center = tables->center;
        const double* scale = tables->scale;
        const double* slope = tables->slope;
        const double* offset = tables->offset;
        for (int64_t i = 0; i < n; i += width) {
          const int64_t m = std::min(width, n - i);
          QTAPE_INDEPENDENT
          for (int64_t k = 0; k < m; ++k) {
            double sum = scale[k] * double{dy[i + k]};
            if (batch) sum += slope[k] * (double{x[i + k]} - center[k]) + offset[k];
            const T value = static_cast<T>(sum);
            dx[i + k] = accumulate ? dx[i + k] + value : value;
          }
        }
      });
}

}  // namespace detail

/// Values of each channel that forward saves: y = gain inverse (x - mean) + beta. `gain` is
/// gamma or its replacement; `extra` is specific to the op.
struct ChannelNumbers {
  double* mean;
  double* inverse;
  double* gain;
  double* extra;

  ChannelNumbers(std::byte* saved, int64_t channels)
      : mean(reinterpret_cast<double*>(saved)),
        inverse(mean + channels),
        gain(inverse + channels),
        extra(gain + channels) {}
};

/// `saved` and `scratch` of both kernels below.
inline Footprint channel_norm_footprint(const Shape& x) {
  const ChannelRows rows(x);
  constexpr int64_t size = sizeof(double);
  return {.saved = 4 * rows.channels * size,
          .scratch = (ChannelSums::count(rows, {}) + 4 * rows.width) * size};
}

/// Scratch if x holds the samples of `shards`.
inline int64_t channel_norm_scratch(const Shape& x, const Shards& shards) {
  const ChannelRows rows = shard_rows(x, shards);
  return (ChannelSums::count(rows, shards) + 4 * rows.width) *
         static_cast<int64_t>(sizeof(double));
}

/// Scratch of a norm: tables, then sums.
class ChannelScratch {
 public:
  ChannelScratch(const ChannelRows& rows, const Shards& shards, std::byte* scratch)
      : rows_(rows),
        first_(reinterpret_cast<double*>(scratch)),
        sums_(rows, shards, first_ + 4 * rows.width) {}

  detail::ChannelTables tables() const {
    return {first_, first_ + rows_.width, first_ + 2 * rows_.width, first_ + 3 * rows_.width};
  }
  const ChannelSums& sums() const { return sums_; }
  /// Fills a table with `value(c)`, repeated up to its width.
  template <class Value>
  void fill(double* table, const Value& value) const {
    for (int64_t c = 0; c < rows_.channels; ++c) table[c] = value(c);
    for (int64_t k = rows_.channels; k < rows_.width; ++k) table[k] = table[k - rows_.channels];
  }

 private:
  ChannelRows rows_;
  double* first_;
  ChannelSums sums_;
};

/// Computes statistics and values of operand 0.
template <class T>
class ChannelNormForward {
 public:
  explicit ChannelNormForward(const Binding& b)
      : numbers(b.saved, b.inputs[0].shape[-1]),
        shards_(b.division()),
        rows_(shard_rows(b.inputs[0].shape, shards_)),
        scratch_(rows_, shards_, b.scratch),
        sums_loop_(detail::channel_sums_loop<T, false>()),
        map_loop_(detail::channel_map_loop<T>()),
        x_(b.operand<const T>(0)),
        y_(b.y<T>()),
        threads_(b.threads) {}

  int64_t channels() const { return rows_.channels; }
  /// Number of elements of each channel in the batch.
  int64_t rows() const { return rows_.rows * shards_.total; }

  /// Statistics of the batch, from sums of differences from `center`.
  class Statistics {
   public:
    Statistics(const double* sums, const double* center, int64_t width, double count)
        : first_(sums), second_(sums + width), center_(center), count_(count) {}

    double mean(int64_t c) const { return center_[c] + first_[c] / count_; }
    /// The biased variance: the mean of squared differences.
    double variance(int64_t c) const {
      const double variance = (second_[c] - first_[c] * (first_[c] / count_)) / count_;
      return variance < 0 ? 0 : variance;
    }

   private:
    const double* first_;
    const double* second_;
    const double* center_;
    double count_;
  };

  /// Measures the differences from the first row or, if the batch has shards, from the running
  /// mean, which is the same for all of them. Valid until `normalize`. Requires at least one
  /// row.
  Statistics measure(const T* running_mean) const {
    const detail::ChannelTables tables = scratch_.tables();
    const T* center = shards_.any() ? running_mean : x_;
    scratch_.fill(tables.center, [&](int64_t c) {
      return shards_.any() && !std::isfinite(center[c]) ? 0.0 : double{center[c]};
    });
    const ChannelSums& sums = scratch_.sums();
    for_each_piece(rows_, shards_.count, threads_,
                   [&](int64_t shard, int64_t piece, int64_t begin, int64_t end) {
                     sums_loop_(x_ + begin, nullptr, tables.center,
                                sums.begin_piece(shard, piece), end - begin, rows_.width);
                   });
    return {sums.finish(), tables.center, rows_.width, static_cast<double>(rows())};
  }

  /// Computes y from `numbers`.
  void normalize(const T* beta) const {
    const int64_t elements = rows_.elements() * shards_.count;
    if (elements == 0) return;
    const detail::ChannelTables tables = scratch_.tables();
    scratch_.fill(tables.center, [&](int64_t c) { return numbers.mean[c]; });
    scratch_.fill(tables.scale,
                  [&](int64_t c) { return numbers.gain[c] * numbers.inverse[c]; });
    scratch_.fill(tables.offset, [&](int64_t c) { return double{beta[c]}; });
    parallel_for(threads_, elements, rows_.width, pointwise_grain,
                 [&](int64_t begin, int64_t end) {
                   map_loop_(x_ + begin, &tables, y_ + begin, end - begin, rows_.width);
                 });
  }

  ChannelNumbers numbers;

 private:
  Shards shards_;
  ChannelRows rows_;  // of one shard
  ChannelScratch scratch_;
  decltype(detail::channel_sums_loop<T, false>()) sums_loop_;
  decltype(detail::channel_map_loop<T>()) map_loop_;
  const T* x_;
  T* y_;
  int threads_;
};

/// Gradients of y = gain inverse (x - mean) + beta.
template <class T>
class ChannelNormBackward {
 public:
  explicit ChannelNormBackward(const Binding& b)
      : numbers(b.saved, b.inputs[0].shape[-1]),
        shards_(b.division()),
        rows_(shard_rows(b.inputs[0].shape, shards_)),
        scratch_(rows_, shards_, b.scratch),
        sums_loop_(detail::channel_sums_loop<T, true>()),
        batch_loop_(b.accumulate(0) ? detail::channel_gradient_loop<T, true, true>()
                                    : detail::channel_gradient_loop<T, true, false>()),
        fixed_loop_(b.accumulate(0) ? detail::channel_gradient_loop<T, false, true>()
                                    : detail::channel_gradient_loop<T, false, false>()),
        x_(b.operand<const T>(0)),
        dy_(b.dy_as<const T>()),
        dx_(b.dx<T>(0)),
        threads_(b.threads) {}

  int64_t channels() const { return rows_.channels; }

  /// Sums over the batch, by channel.
  struct Sums {
    const double* sum;      ///< of dy
    const double* product;  ///< of dy (x - mean)
  };

  Sums measure() const {
    const detail::ChannelTables tables = scratch_.tables();
    scratch_.fill(tables.center, [&](int64_t c) { return numbers.mean[c]; });
    const ChannelSums& sums = scratch_.sums();
    for_each_piece(rows_, shards_.count, threads_,
                   [&](int64_t shard, int64_t piece, int64_t begin, int64_t end) {
                     sums_loop_(x_ + begin, dy_ + begin, tables.center,
                                sums.begin_piece(shard, piece), end - begin, rows_.width);
                   });
    const double* all = sums.finish();
    return {all, all + rows_.width};
  }

  /// Computes dx if it is wanted. `batch`: mean and inverse depend on x.
  void spread(const Sums& sums, bool batch) const {
    if (dx_ == nullptr || rows_.rows == 0) return;
    const detail::ChannelTables tables = scratch_.tables();
    const auto n = static_cast<double>(rows_.rows * shards_.total);
    const auto scale = [&](int64_t c) { return numbers.gain[c] * numbers.inverse[c]; };
    scratch_.fill(tables.scale, scale);
    scratch_.fill(tables.slope, [&](int64_t c) {
      return -scale(c) * numbers.inverse[c] * numbers.inverse[c] * (sums.product[c] / n);
    });
    scratch_.fill(tables.offset, [&](int64_t c) { return -scale(c) * (sums.sum[c] / n); });
    const auto loop = batch ? batch_loop_ : fixed_loop_;
    parallel_for(threads_, rows_.elements() * shards_.count, rows_.width, pointwise_grain,
                 [&](int64_t begin, int64_t end) {
                   loop(x_ + begin, dy_ + begin, &tables, dx_ + begin, end - begin,
                        rows_.width);
                 });
  }

  ChannelNumbers numbers;

 private:
  Shards shards_;
  ChannelRows rows_;  // of one shard
  ChannelScratch scratch_;
  decltype(detail::channel_sums_loop<T, true>()) sums_loop_;
  decltype(detail::channel_gradient_loop<T, true, true>()) batch_loop_;
  decltype(detail::channel_gradient_loop<T, true, true>()) fixed_loop_;
  const T* x_;
  const T* dy_;
  T* dx_;
  int threads_;
};

/// Gradient of an operand with one number per channel.
template <class T>
struct ChannelGradient {
  T* data;
  bool accumulate;

  ChannelGradient(const Binding& b, int operand)
      : data(b.dx<T>(operand)), accumulate(b.accumulate(operand)) {}

  /// (+)= value(c), if the gradient is wanted.
  template <class Value>
  void put(int64_t channels, const Value& value) const {
    if (data == nullptr) return;
    for (int64_t c = 0; c < channels; ++c) {
      const T gradient = static_cast<T>(value(c));
      data[c] = accumulate ? data[c] + gradient : gradient;
    }
  }
};

/// Running statistics of a norm, [channels] each.
template <class T>
struct RunningStatistics {
  T* mean;
  T* variance;
  double momentum;

  /// Updates channel c with the statistics of a batch of n elements; `batch_variance` is
  /// biased, the running variance unbiased. Does nothing if the result is not finite.
  void move(int64_t c, double batch_mean, double batch_variance, double n) const {
    const auto towards = [&](T running, double batch) {
      return static_cast<T>((1 - momentum) * double{running} + momentum * batch);
    };
    const T new_mean = towards(mean[c], batch_mean);
    const T new_variance = towards(variance[c], batch_variance * (n / (n - 1)));
    if (!std::isfinite(new_mean) || !std::isfinite(new_variance)) return;
    mean[c] = new_mean;
    variance[c] = new_variance;
  }
};

/// Fault for statistics of fewer than two elements.
inline Fault too_few_elements(int64_t rows) {
  return {
      "statistics of a batch need at least 2 elements of each channel, got {value}: use larger "
      "batches, or freeze norms from the first step",
      0, static_cast<double>(rows)};
}

/// Throws GraphError unless operand `i`, named `name`, has one number per channel of operand 0.
inline void check_channels(Inputs inputs, size_t i, std::string_view name) {
  const TensorType expected{inputs[0].dtype, Shape{inputs[0].shape[-1]}};
  check(inputs[i] == expected, "{} must be {}, one for each channel, got {}", name,
        to_string(expected), to_string(inputs[i]));
}

/// Throws GraphError unless `eps` is positive and finite.
inline void check_eps(double eps) {
  check(eps > 0 && std::isfinite(eps), "eps must be above 0 and finite, got {}", eps);
}

/// Type of the result of a norm whose operands after the first are all [c]. Throws GraphError
/// for invalid operands or attributes.
template <class X>
TensorType infer_channel_norm(const X& op, Inputs inputs) {
  const auto slots = op.slots();
  const TensorType& x = inputs[0];
  check_compute(x);
  check(x.shape.rank() >= 2, "{} needs rank >= 2, got {}", slots[0].name, to_string(x.shape));
  for (size_t i = 1; i < slots.size(); ++i) check_channels(inputs, i, slots[i].name);
  check(op.momentum >= 0 && op.momentum <= 1, "momentum must be in [0, 1], got {}",
        op.momentum);
  check_eps(op.eps);
  return x;
}

}  // namespace qtape
