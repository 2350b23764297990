// Common parts of norms over the channels of the last axis: sums over all other axes, and maps
// with parameters per channel. Included only by the .cpp files of these ops.
#pragma once

#include <algorithm>
#include <cmath>

#include "qtape/kernels/simd/threads.h"
#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"
#include "qtape/ops/core/op.h"

namespace qtape {

using namespace kernels;

/// x [..., channels] as blocks of `width` elements and as pieces of blocks. A block has several
/// rows if there are few channels. Sums add the blocks of a piece, then the pieces, then the
/// rows of a block; this order depends only on the extents.
struct ChannelRows {
  int64_t channels = 0;
  int64_t rows = 0;
  int64_t width = 0;
  int64_t blocks = 0;
  int64_t pieces = 1;

  explicit ChannelRows(const Shape& x) {
    constexpr int64_t lanes = 64;
    constexpr int64_t piece_elements = 32768;
    constexpr int64_t piece_blocks = 32;
    constexpr int64_t most_pieces = 64;
    channels = x[-1];
    rows = channels == 0 ? 0 : x.elements() / channels;
    width = channels * std::max<int64_t>(1, lanes / std::max<int64_t>(channels, 1));
    blocks = width == 0 ? 0 : (elements() + width - 1) / width;
    pieces = std::clamp<int64_t>(std::min(elements() / piece_elements, blocks / piece_blocks),
                                 1, most_pieces);
  }

  int64_t elements() const { return rows * channels; }
  /// First element of a piece; for the index after the last piece, the end.
  int64_t piece_begin(int64_t piece) const {
    return std::min(elements(), blocks * piece / pieces * width);
  }
};

/// Calls `body(piece, begin, end)` for all pieces, each in one thread.
template <class Body>
void for_each_piece(const ChannelRows& rows, int threads, const Body& body) {
  parallel_for(threads, rows.pieces, 1, 1, [&](int64_t first, int64_t last) {
    for (int64_t p = first; p < last; ++p)
      body(p, rows.piece_begin(p), rows.piece_begin(p + 1));
  });
}

/// Two sums for each channel, in double.
class ChannelSums {
 public:
  /// `memory` holds count(rows) doubles.
  ChannelSums(const ChannelRows& rows, double* memory) : rows_(rows), memory_(memory) {}

  static int64_t count(const ChannelRows& rows) { return 2 * rows.width * rows.pieces; }

  /// Buffer for the sums of a piece: `width` first sums and then `width` second sums, set to 0.
  double* begin_piece(int64_t piece) const {
    double* sums = memory_ + 2 * rows_.width * piece;
    std::fill_n(sums, 2 * rows_.width, 0.0);
    return sums;
  }
  /// Adds up all pieces; afterwards first(c) and second(c) return the sums of channel c.
  void finish() const {
    for (int64_t p = 1; p < rows_.pieces; ++p) {
      const double* more = memory_ + 2 * rows_.width * p;
      for (int64_t k = 0; k < 2 * rows_.width; ++k) memory_[k] += more[k];
    }
    for (double* sums : {memory_, memory_ + rows_.width}) {
      for (int64_t k = rows_.channels; k < rows_.width; k += rows_.channels) {
        for (int64_t c = 0; c < rows_.channels; ++c) sums[c] += sums[k + c];
      }
    }
  }
  double first(int64_t c) const { return memory_[c]; }
  double second(int64_t c) const { return memory_[rows_.width + c]; }

 private:
  ChannelRows rows_;
  double* memory_;
};

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
          .scratch = (ChannelSums::count(rows) + 4 * rows.width) * size};
}

/// Scratch of a norm: tables, then sums.
class ChannelScratch {
 public:
  ChannelScratch(const ChannelRows& rows, std::byte* scratch)
      : rows_(rows), first_(reinterpret_cast<double*>(scratch)) {}

  detail::ChannelTables tables() const {
    return {first_, first_ + rows_.width, first_ + 2 * rows_.width, first_ + 3 * rows_.width};
  }
  ChannelSums sums() const { return {rows_, first_ + 4 * rows_.width}; }
  /// Fills a table with `value(c)`, repeated up to its width.
  template <class Value>
  void fill(double* table, const Value& value) const {
    for (int64_t c = 0; c < rows_.channels; ++c) table[c] = value(c);
    for (int64_t k = rows_.channels; k < rows_.width; ++k) table[k] = table[k - rows_.channels];
  }

 private:
  ChannelRows rows_;
  double* first_;
};

/// Computes statistics and values of operand 0.
template <class T>
class ChannelNormForward {
 public:
  explicit ChannelNormForward(const Binding& b)
      : numbers(b.saved, b.inputs[0].shape[-1]),
        rows_(b.inputs[0].shape),
        scratch_(rows_, b.scratch),
        sums_loop_(detail::channel_sums_loop<T, false>()),
        map_loop_(detail::channel_map_loop<T>()),
        x_(b.operand<const T>(0)),
        y_(b.y<T>()),
        threads_(b.threads) {}

  const ChannelRows& rows() const { return rows_; }

  /// Sums the differences from the first row. Requires at least one row.
  void measure() const {
    const detail::ChannelTables tables = scratch_.tables();
    scratch_.fill(tables.center, [&](int64_t c) { return double{x_[c]}; });
    const ChannelSums sums = scratch_.sums();
    for_each_piece(rows_, threads_, [&](int64_t piece, int64_t begin, int64_t end) {
      sums_loop_(x_ + begin, nullptr, tables.center, sums.begin_piece(piece), end - begin,
                 rows_.width);
    });
    sums.finish();
  }
  /// Requires `measure`.
  double mean(int64_t c) const {
    return scratch_.tables().center[c] + scratch_.sums().first(c) / count();
  }
  /// Requires `measure`. The biased variance: the mean of squared differences.
  double variance(int64_t c) const {
    const double sum = scratch_.sums().first(c);
    const double variance = (scratch_.sums().second(c) - sum * (sum / count())) / count();
    return variance < 0 ? 0 : variance;
  }

  /// Computes y from `numbers`.
  void normalize(const T* beta) const {
    if (rows_.elements() == 0) return;
    const detail::ChannelTables tables = scratch_.tables();
    scratch_.fill(tables.center, [&](int64_t c) { return numbers.mean[c]; });
    scratch_.fill(tables.scale,
                  [&](int64_t c) { return numbers.gain[c] * numbers.inverse[c]; });
    scratch_.fill(tables.offset, [&](int64_t c) { return double{beta[c]}; });
    parallel_for(threads_, rows_.elements(), rows_.width, pointwise_grain,
                 [&](int64_t begin, int64_t end) {
                   map_loop_(x_ + begin, &tables, y_ + begin, end - begin, rows_.width);
                 });
  }

  ChannelNumbers numbers;

 private:
  double count() const { return static_cast<double>(rows_.rows); }

  ChannelRows rows_;
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
        rows_(b.inputs[0].shape),
        scratch_(rows_, b.scratch),
        sums_loop_(detail::channel_sums_loop<T, true>()),
        batch_loop_(b.accumulate(0) ? detail::channel_gradient_loop<T, true, true>()
                                    : detail::channel_gradient_loop<T, true, false>()),
        fixed_loop_(b.accumulate(0) ? detail::channel_gradient_loop<T, false, true>()
                                    : detail::channel_gradient_loop<T, false, false>()),
        x_(b.operand<const T>(0)),
        dy_(b.dy_as<const T>()),
        dx_(b.dx<T>(0)),
        threads_(b.threads) {}

  const ChannelRows& rows() const { return rows_; }

  void measure() const {
    const detail::ChannelTables tables = scratch_.tables();
    scratch_.fill(tables.center, [&](int64_t c) { return numbers.mean[c]; });
    const ChannelSums sums = scratch_.sums();
    for_each_piece(rows_, threads_, [&](int64_t piece, int64_t begin, int64_t end) {
      sums_loop_(x_ + begin, dy_ + begin, tables.center, sums.begin_piece(piece), end - begin,
                 rows_.width);
    });
    sums.finish();
  }
  /// Requires `measure`. The sum of dy.
  double sum(int64_t c) const { return scratch_.sums().first(c); }
  /// Requires `measure`. The sum of dy (x - mean).
  double product(int64_t c) const { return scratch_.sums().second(c); }

  /// Computes dx if it is wanted; requires `measure`. `batch`: mean and inverse depend on x.
  void spread(bool batch) const {
    if (dx_ == nullptr || rows_.rows == 0) return;
    const detail::ChannelTables tables = scratch_.tables();
    const auto n = static_cast<double>(rows_.rows);
    const auto scale = [&](int64_t c) { return numbers.gain[c] * numbers.inverse[c]; };
    scratch_.fill(tables.scale, scale);
    scratch_.fill(tables.slope, [&](int64_t c) {
      return -scale(c) * numbers.inverse[c] * numbers.inverse[c] * (product(c) / n);
    });
    scratch_.fill(tables.offset, [&](int64_t c) { return -scale(c) * (sum(c) / n); });
    const auto loop = batch ? batch_loop_ : fixed_loop_;
    parallel_for(threads_, rows_.elements(), rows_.width, pointwise_grain,
                 [&](int64_t begin, int64_t end) {
                   loop(x_ + begin, dy_ + begin, &tables, dx_ + begin, end - begin,
                        rows_.width);
                 });
  }

  ChannelNumbers numbers;

 private:
  ChannelRows rows_;
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
  return {"statistics of a batch need at least 2 elements of each channel, got {value}", 0,
          static_cast<double>(rows)};
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
