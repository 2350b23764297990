// Division of a tensor with channels into chunks for measurement and quantization.
#pragma once

#include <algorithm>

#include "qtape/core/granularity.h"
#include "qtape/kernels/quantize/quantize_kernels.h"
#include "qtape/kernels/simd/threads.h"

namespace qtape::kernels {

/// A chunk of contiguous elements, at most quantize_chunk of them.
struct Chunk {
  int64_t offset = 0;  ///< first element within the tensor
  int64_t length = 0;
  int64_t word = 0;     ///< first mask word
  int64_t channel = 0;  ///< channel of the first element
};

/// Layout of the channels of a tensor: either consecutive segments, each of one channel, or
/// rows that contain one element of every channel (columns). No two chunks share a mask word.
class QuantizeLayout {
 public:
  /// Throws GraphError as Granularity::scales_shape does.
  QuantizeLayout(const Shape& shape, const Granularity& granularity);

  int64_t channels() const { return map_.channels; }
  int64_t elements() const { return elements_; }
  int64_t chunks() const { return chunks_; }
  int64_t mask_words() const { return chunks_ * words_; }
  /// True if every row contains one element of every channel.
  bool columns() const { return columns_; }
  /// Number of elements of a segment or of a row.
  int64_t segment() const { return segment_; }
  /// Number of segments or rows of the tensor.
  int64_t segments() const { return segments_; }
  /// Number of whole segments in each chunk; 0 if a segment spans several chunks.
  int64_t segments_per_chunk() const { return per_chunk_; }
  /// True if each chunk consists of whole channels, which can be measured and quantized while
  /// in cache.
  bool chunks_are_channels() const {
    return !columns_ && per_chunk_ > 0 && segments_ == channels();
  }
  Chunk chunk(int64_t index) const;
  /// Channel of element i.
  int64_t channel_of(int64_t i) const { return map_(i); }

  /// Calls `body(index, chunk)` for all chunks, in parallel if there is enough work.
  template <class Body>
  void for_each_chunk(int threads, const Body& body) const {
    const int64_t length = std::max<int64_t>(1, elements_ / std::max<int64_t>(1, chunks_));
    const int64_t grain = std::max<int64_t>(1, pointwise_grain / length);
    parallel_for(threads, chunks_, 1, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) body(i, chunk(i));
    });
  }

 private:
  ChannelMap map_;
  int64_t elements_ = 0;
  bool columns_ = false;
  int64_t segment_ = 1;
  int64_t segments_ = 0;
  int64_t per_chunk_ = 1;  // segments per chunk, or 0
  int64_t pieces_ = 1;     // chunks per segment
  int64_t chunks_ = 0;
  int64_t words_ = 0;  // mask words per chunk
};

/// Number of ranges into which rows are divided if each channel is a column. Constant, so that
/// sums over them do not depend on the thread count.
inline constexpr int64_t column_groups = 16;

/// Returns the number of partial results of a reduction per channel: one for each column group
/// and channel; else one for each segment if a chunk holds several; else one for each chunk.
inline int64_t partials(const QuantizeLayout& layout) {
  if (layout.columns()) return column_groups * layout.channels();
  return layout.segments_per_chunk() > 0 ? layout.segments() : layout.chunks();
}

/// Calls `body(group, first row, last row)` for each column group, in parallel if there is
/// enough work. The last row is exclusive.
template <class Body>
void for_each_column_group(const QuantizeLayout& layout, int threads, const Body& body) {
  const int64_t grain = std::max<int64_t>(
      1, column_groups * pointwise_grain / std::max<int64_t>(1, layout.elements()));
  parallel_for(threads, column_groups, 1, grain, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) {
      body(g, layout.segments() * g / column_groups,
           layout.segments() * (g + 1) / column_groups);
    }
  });
}

/// Measures the range of each channel of x [layout] and counts elements that are not finite.
/// The results do not depend on the order, so they are equal at any thread count.
template <class S>
class Measurement {
 public:
  using T = typename Storage<S>::Compute;

  /// Bytes of scratch used by `measure`; the first `channels` Extremes are the result.
  static int64_t scratch_bytes(const QuantizeLayout& layout);

  Measurement(const QuantizeLayout& layout, const QuantizeLoops<S>& loops, std::byte* scratch,
              int threads);
  std::span<const Extremes<T>> measure(const S* x) const {
    return measure(x, [](const Chunk&) {});
  }
  /// Calls `use(chunk)` for each chunk after its measurement; `use` may overwrite the chunk.
  /// Calls come immediately, or after all measurements if rows contain one element of every
  /// channel.
  template <class Use>
  std::span<const Extremes<T>> measure(const S* x, const Use& use) const {
    if (layout_.columns()) {
      measure_columns(x);
      layout_.for_each_chunk(threads_, [&](int64_t, const Chunk& chunk) { use(chunk); });
    } else {
      layout_.for_each_chunk(threads_, [&](int64_t i, const Chunk& chunk) {
        measure_chunk(x, i, chunk);
        use(chunk);
      });
    }
    return merged();
  }

 private:
  void measure_chunk(const S* x, int64_t index, const Chunk& chunk) const;
  void measure_columns(const S* x) const;
  std::span<const Extremes<T>> merged() const;

  QuantizeLayout layout_;
  QuantizeLoops<S> loops_;
  Extremes<T>* totals_;
  int64_t* non_finite_ = nullptr;  // of each partial measurement, like the next two
  T* min_ = nullptr;
  T* max_ = nullptr;
  int threads_;
};

}  // namespace qtape::kernels
