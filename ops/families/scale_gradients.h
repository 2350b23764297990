// Gradients of learned scales: the loops of learned_kernels.h over a whole tensor, and their
// sums per channel in an order that does not depend on threads.
#pragma once

#include "qtape/kernels/quantize/learned_kernels.h"
#include "qtape/ops/families/quantizer.h"

namespace qtape {

using namespace kernels;

/// Treatment of the gradient of operand i.
inline Target target_of(const Binding& b, int i) {
  if (!b.wanted(i)) return Target::Unwanted;
  return b.accumulate(i) ? Target::Add : Target::Write;
}

/// Destination of the gradient of a learned parameter with one number per channel.
template <class T>
class GradientSink {
 public:
  GradientSink() = default;
  /// Gradient of operand i; does nothing if the op has no such operand.
  GradientSink(const Binding& b, int i) {
    if (static_cast<size_t>(i) >= b.gradients.size()) return;
    target_ = target_of(b, i);
    data_ = b.dx<T>(i);
  }
  void put(int64_t channel, double gradient) const {
    if (target_ == Target::Unwanted) return;
    const T old = target_ == Target::Add ? data_[channel] : T(0);
    data_[channel] = old + static_cast<T>(gradient);
  }

 private:
  T* data_ = nullptr;
  Target target_ = Target::Unwanted;
};

template <class S>
class ScaleGradients {
 public:
  using T = typename Storage<S>::Compute;

  /// Bytes of Binding::scratch.
  static int64_t scratch_bytes(const QuantizeLayout& layout) {
    return 2 * static_cast<int64_t>(sizeof(T)) * partials(layout);
  }

  ScaleGradients(const QuantizeLayout& layout, const QuantizeChunk<T>& base,
                 LearnedLoop<S> loop, const Binding& b)
      : layout_(layout),
        base_(base),
        loop_(loop),
        record_(b.record, layout.channels()),
        x_(b.operand<const S>(0)),
        dy_(b.dy_as<const S>()),
        dx_(b.dx<S>(0)),
        first_(reinterpret_cast<T*>(b.scratch)),
        second_(first_ + partials(layout)),
        threads_(b.threads) {}

  /// Runs the loop over x, which writes dx, and calls `sink(channel, sum of first, sum of
  /// second)`.
  template <class Sink>
  void chunk(const Sink& sink) const {
    if (layout_.columns()) {
      run_columns();
    } else {
      run_segments();
    }
    const int64_t count = partials(layout_);
    const int64_t pieces =
        layout_.columns() ? 1 : count / std::max<int64_t>(1, layout_.segments());
    const int64_t channels = layout_.channels();
    for (int64_t c = 0; c < channels; ++c) {
      double first = 0;
      double second = 0;
      for (int64_t i = c * pieces; i < count; i += channels * pieces) {
        for (int64_t k = i; k < i + pieces; ++k) {
          first += double{first_[k]};
          second += double{second_[k]};
        }
      }
      sink(c, first, second);
    }
  }

 private:
  S* dx_at(int64_t offset) const { return dx_ == nullptr ? nullptr : dx_ + offset; }

  void run_segments() const {
    const int64_t each = std::max<int64_t>(1, layout_.segments_per_chunk());
    layout_.for_each_chunk(threads_, [&](int64_t i, const Chunk& chunk) {
      const QuantizeChunk<T> r = at_chunk(base_, record_, layout_, chunk);
      loop_(x_ + chunk.offset, dy_ + chunk.offset, dx_at(chunk.offset), chunk.length, &r,
            first_ + i * each, second_ + i * each);
    });
  }

  void run_columns() const {
    std::fill_n(first_, 2 * partials(layout_), T(0));
    const int64_t row = layout_.segment();
    for_each_column_group(layout_, threads_, [&](int64_t g, int64_t begin, int64_t end) {
      for (int64_t offset = begin * row; offset < end * row; offset += row) {
        const int64_t c = layout_.channel_of(offset);
        const QuantizeChunk<T> r = at_chunk(base_, record_, layout_, {.channel = c});
        const int64_t at = g * layout_.channels() + c;
        loop_(x_ + offset, dy_ + offset, dx_at(offset), row, &r, first_ + at, second_ + at);
      }
    });
  }

  QuantizeLayout layout_;
  QuantizeChunk<T> base_;
  LearnedLoop<S> loop_;
  QuantizerRecord<T> record_;
  const S* x_;
  const S* dy_;
  S* dx_;
  T* first_;
  T* second_;
  int threads_;
};

}  // namespace qtape
