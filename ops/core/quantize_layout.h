// How a tensor with channels is cut into runs that kernels measure and quantize.
#pragma once

#include <algorithm>
#include <optional>

#include "qtape/ops/core/quantize_kernels.h"
#include "qtape/ops/core/threads.h"
#include "qtape/ops/core/types.h"

namespace qtape {

/// One run of contiguous elements, at most quantize_run of them.
struct Run {
  int64_t offset = 0;  ///< first element within the tensor
  int64_t length = 0;
  int64_t word = 0;     ///< first mask word
  int64_t channel = 0;  ///< channel of the first element
};

/// Rows of contiguous elements. A row belongs to one channel, or (`per_element`) holds one
/// element of every channel. Each row starts on a mask word of its own, so no two runs share a
/// word.
struct QuantizeLayout {
  int64_t channels = 1;
  int64_t rows = 1;
  int64_t columns = 0;
  bool per_element = false;
  int64_t runs_per_row = 1;

  /// `axis`: the channel axis, resolved, or nothing for one channel.
  QuantizeLayout(const Shape& shape, std::optional<int> axis);

  int64_t elements() const { return rows * columns; }
  int64_t runs() const { return rows * runs_per_row; }
  int64_t mask_words() const { return rows * ((columns + 63) / 64); }
  /// Each run is a whole channel: it can be measured and quantized while it is in cache.
  bool run_is_channel() const { return !per_element && runs_per_row == 1 && rows == channels; }
  Run run(int64_t index) const;

  /// Calls `body(index, run)` on all runs, in parallel where there is enough work.
  template <class Body>
  void for_each_run(int threads, const Body& body) const {
    const int64_t length = std::max<int64_t>(1, elements() / std::max<int64_t>(1, runs()));
    const int64_t grain = std::max<int64_t>(1, pointwise_grain / length);
    parallel_for(threads, runs(), 1, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) body(i, run(i));
    });
  }
};

/// Measures the largest finite magnitude of each channel of x [layout] and counts what is not
/// finite. Maxima and counts do not depend on order, so threads cannot change them.
template <class S>
class Measurement {
 public:
  using T = typename Storage<S>::Compute;

  /// Bytes of scratch that `measure` uses; the first `channels` Extremes are the result.
  static int64_t scratch_bytes(const QuantizeLayout& layout);

  Measurement(const QuantizeLayout& layout, const QuantizeLoops<S>& loops, std::byte* scratch,
              int threads);
  std::span<const Extremes<T>> measure(const S* x) const;

 private:
  void measure_runs(const S* x) const;
  void measure_columns(const S* x) const;

  QuantizeLayout layout_;
  QuantizeLoops<S> loops_;
  Extremes<T>* totals_;
  std::byte* partial_;
  int threads_;
};

}  // namespace qtape
