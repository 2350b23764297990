// Common parts of quantizer kernels: the record of scales and zero points in use, and their
// application to a tensor.
#pragma once

#include <atomic>
#include <cmath>
#include <type_traits>

#include "qtape/core/code_types.h"
#include "qtape/core/half.h"
#include "qtape/kernels/quantize/code_kernels.h"
#include "qtape/kernels/quantize/quantize_layout.h"
#include "qtape/kernels/quantize/settle_kernels.h"
#include "qtape/ops/core/quantizer_op.h"

namespace qtape {

using namespace kernels;

/// Binding::record of a quantizer: for each channel the scale in use, the zero point in use, 1
/// / scale, and a number specific to the op that backward reads. Tools read the first two after
/// a step.
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

/// Members of a QuantizeChunk that are equal for all chunks of a tensor with segments of
/// `segment` elements.
template <class T>
QuantizeChunk<T> quantize_chunk_of(const Grid& grid, int64_t segment, int64_t channels,
                                   MaskRule mask) {
  QuantizeChunk<T> chunk;
  chunk.segment = segment;
  chunk.channels = channels;
  chunk.q_min = static_cast<T>(grid.limits.q_min);
  chunk.q_max = static_cast<T>(grid.limits.q_max);
  chunk.before = grid.zero_point == ZeroPoint::BeforeRounding;
  chunk.mask_by_value = mask == MaskRule::Value;
  chunk.half_even = grid.rounding == Rounding::HalfEven;
  chunk.away = grid.rounding == Rounding::HalfAway;
  chunk.exact = grid.division == Division::Exact;
  return chunk;
}

template <class T>
QuantizeChunk<T> quantize_chunk_of(const Grid& grid, const QuantizeLayout& layout,
                                   MaskRule mask) {
  return quantize_chunk_of<T>(grid, layout.segment(), layout.channels(), mask);
}

/// `base` with the numbers of the record for `chunk`.
template <class T>
QuantizeChunk<T> at_chunk(QuantizeChunk<T> base, const QuantizerRecord<T>& record,
                          const QuantizeLayout& layout, const Chunk& chunk) {
  const int64_t first = layout.columns() ? chunk.channel : 0;
  base.channel = chunk.channel;
  base.scale = record.scale + first;
  base.zero_point = record.zero_point + first;
  base.inverse = record.inverse + first;
  base.clip = record.extra + first;
  return base;
}

/// Quantizes x to values, codes or both, with the scales and zero points of the record.
template <class S>
class GridQuantizer {
 public:
  using T = typename Storage<S>::Compute;

  /// `masked`: writes the mask to Binding::saved.
  GridQuantizer(const Grid& grid, const QuantizeLayout& layout, const QuantizeChunk<T>& base,
                bool masked, const Binding& b)
      : layout_(layout),
        base_(base),
        loops_(quantize_loops<S>(version_of(grid, base, layout, masked))),
        record_(b.record, layout.channels()),
        x_(b.operand<const S>(0)),
        y_(b.y<S>()),
        mask_(masked ? reinterpret_cast<uint64_t*>(b.saved) : nullptr),
        codes_(b.codes),
        code_bytes_(size_of(code_dtype(grid.limits))),
        status_(b.status),
        threads_(b.threads) {
    if constexpr (std::is_same_v<S, float>) {
      if (codes_ == nullptr) return;
      const QuantizeVersion version = version_of(grid, base, layout, masked);
      with_values_ = quantize_codes_loop(version, code_dtype(grid.limits), true);
      codes_alone_ = quantize_codes_loop(version, code_dtype(grid.limits), false);
    }
  }

  const QuantizeLayout& layout() const { return layout_; }
  const QuantizeLoops<S>& loops() const { return loops_; }
  const QuantizerRecord<T>& record() const { return record_; }
  const S* x() const { return x_; }

  void quantize(const Chunk& chunk) const {
    const QuantizeChunk<T> r = at_chunk(base_, record_, layout_, chunk);
    uint64_t* mask = mask_ == nullptr ? nullptr : mask_ + chunk.word;
    if constexpr (std::is_same_v<S, float>) {
      if (codes_ != nullptr) {
        uint32_t nan = 0;
        const bool values = y_ != nullptr && status_->output == QuantizerOutput::Values;
        (values ? with_values_ : codes_alone_)(
            x_ + chunk.offset, values ? y_ + chunk.offset : nullptr,
            codes_ + chunk.offset * code_bytes_, mask, chunk.length, &r, &nan);
        if (nan != 0) std::atomic_ref(status_->nan).store(true, std::memory_order_relaxed);
        return;
      }
    }
    loops_.quantize(x_ + chunk.offset, y_ + chunk.offset, mask, chunk.length, &r);
  }

  /// Quantizes all elements, unless the status states that codes are computed elsewhere.
  void quantize_all() const {
    if (status_->output == QuantizerOutput::Nothing) return;
    layout_.for_each_chunk(threads_, [&](int64_t, const Chunk& chunk) { quantize(chunk); });
  }

 private:
  static QuantizeVersion version_of(const Grid& grid, const QuantizeChunk<T>& base,
                                    const QuantizeLayout& layout, bool masked) {
    return {.rounding = grid.rounding,
            .division = grid.division,
            .masked = masked,
            .columns = layout.columns(),
            .plain = !base.before && !base.codes};
  }

  QuantizeLayout layout_;
  QuantizeChunk<T> base_;
  QuantizeLoops<S> loops_;
  QuantizerRecord<T> record_;
  const S* x_;
  S* y_;
  uint64_t* mask_;
  std::byte* codes_;
  int64_t code_bytes_;
  QuantizeCodesLoop with_values_;
  QuantizeCodesLoop codes_alone_;
  NodeStatus* status_;
  int threads_;
};

}  // namespace qtape
