// How a tensor with channels is cut into chunks that kernels measure and quantize.
#pragma once

#include <algorithm>

#include "qtape/core/granularity.h"
#include "qtape/kernels/quantize/quantize_kernels.h"
#include "qtape/kernels/simd/threads.h"

namespace qtape::kernels {

/// One chunk of contiguous elements, at most quantize_chunk of them.
struct Chunk {
  int64_t offset = 0;  ///< first element within the tensor
  int64_t length = 0;
  int64_t word = 0;     ///< first mask word
  int64_t channel = 0;  ///< channel of the first element
};

/// A tensor is either consecutive segments of elements, each of one channel, or rows that hold
/// one element of every channel (columns). No two chunks share a mask word.
class QuantizeLayout {
 public:
  /// Throws GraphError as Granularity::scales_shape.
  QuantizeLayout(const Shape& shape, const Granularity& granularity);

  int64_t channels() const { return map_.channels; }
  int64_t elements() const { return elements_; }
  int64_t chunks() const { return chunks_; }
  int64_t mask_words() const { return chunks_ * words_; }
  /// Whether every row holds one element of every channel.
  bool columns() const { return columns_; }
  /// Elements of a segment or of a row.
  int64_t segment() const { return segment_; }
  /// Segments or rows of the whole tensor.
  int64_t segments() const { return segments_; }
  /// Segments that each chunk has, all of them whole; 0 when a segment takes several chunks.
  int64_t segments_per_chunk() const { return per_chunk_; }
  /// Each chunk is made of whole channels, which can be measured and quantized while in cache.
  bool chunks_are_channels() const {
    return !columns_ && per_chunk_ > 0 && segments_ == channels();
  }
  Chunk chunk(int64_t index) const;
  /// The channel of element i.
  int64_t channel_of(int64_t i) const { return map_(i); }

  /// Calls `body(index, chunk)` on all chunks, in parallel where there is enough work.
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
  int64_t per_chunk_ = 1;  // segments in a chunk, or 0
  int64_t pieces_ = 1;     // chunks in a segment
  int64_t chunks_ = 0;
  int64_t words_ = 0;  // mask words of a chunk
};

/// Rows that are cut into this many ranges when each channel is a column: fixed, so that sums
/// over them do not depend on threads.
inline constexpr int64_t column_groups = 16;

/// Calls `body(group, first row, last row)` for each of the column groups, in parallel where
/// there is enough work.
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

/// Measures the range of each channel of x [layout] and counts what is not finite. Extremes and
/// counts do not depend on order, so threads cannot change them.
template <class S>
class Measurement {
 public:
  using T = typename Storage<S>::Compute;

  /// Bytes of scratch that `measure` uses; the first `channels` Extremes are the result.
  static int64_t scratch_bytes(const QuantizeLayout& layout);

  Measurement(const QuantizeLayout& layout, const QuantizeLoops<S>& loops, std::byte* scratch,
              int threads);
  std::span<const Extremes<T>> measure(const S* x) const {
    return measure(x, [](const Chunk&) {});
  }
  /// Calls `use(chunk)` for each chunk after it was measured, which may overwrite it: at
  /// once, or after all of them where rows hold one element of every channel.
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
  static int64_t partials(const QuantizeLayout& layout);

  QuantizeLayout layout_;
  QuantizeLoops<S> loops_;
  Extremes<T>* totals_;
  int64_t* non_finite_ = nullptr;  // of each partial measurement, as are the next two
  T* min_ = nullptr;
  T* max_ = nullptr;
  int threads_;
};

}  // namespace qtape::kernels
