// Common parts of Quantize and Dequantize: scales as operands, and iteration over elements with
// their scales.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "qtape/core/code_types.h"
#include "qtape/kernels/simd/vectorize.h"
#include "qtape/ops/families/quantizer.h"

namespace qtape {

using namespace kernels;

/// Operands scale [channels] and zero_point [channels] of a node. Each forward copies them to
/// the record, so that backward uses the same values.
template <class T>
class ScaleOperands {
 public:
  ScaleOperands(const Binding& b, int64_t channels, CodeLimits limits)
      : record_(b.record, channels),
        scale_(b.operand<const T>(1)),
        zero_point_(b.operands.size() > 2 ? b.operand<const T>(2) : nullptr),
        channels_(channels),
        limits_(limits) {}

  const QuantizerRecord<T>& record() const { return record_; }

  /// Fills the record. Returns a fault for the first unusable scale or zero point.
  Fault load() const {
    for (int64_t c = 0; c < channels_; ++c) {
      const QParams<T> q{scale_[c], zero_point_ == nullptr ? T(0) : zero_point_[c]};
      if (!is_usable_scale(q.scale)) {
        return {"scale of channel {index} is {value}; it must be a positive normal number", c,
                static_cast<double>(q.scale)};
      }
      const Fault fault = zero_point_fault(q.zero_point, limits_, c);
      if (fault.text != nullptr) return fault;
      record_.use(c, q);
    }
    return {};
  }

 private:
  QuantizerRecord<T> record_;
  const T* scale_;
  const T* zero_point_;
  int64_t channels_;
  CodeLimits limits_;
};

/// Chunk `r` starting at its element `begin`.
template <class T>
QuantizeChunk<T> advanced(QuantizeChunk<T> r, bool columns, int64_t begin) {
  if (columns) {
    r.scale += begin;
    r.inverse += begin;
    r.zero_point += begin;
  } else {
    r.channel = (r.channel + begin / r.segment) % r.channels;
    r.left = r.segment - begin % r.segment;
  }
  return r;
}

/// Calls `body(i, scale, zero point)` for elements 0 to n - 1 of a chunk. Calls of `body` must
/// be independent of each other.
template <bool columns, class T, class Body>
inline void for_each_scaled(int64_t n, const QuantizeChunk<T>& r, const Body& body) {
  if constexpr (columns) {
    QTAPE_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) body(i, r.scale[i], r.zero_point[i]);
  } else {
    int64_t c = r.channel;
    int64_t end = r.left > 0 ? r.left : r.segment;
    for (int64_t begin = 0; begin < n; begin = end, end += r.segment) {
      const T scale = r.scale[c];
      const T zero_point = r.zero_point[c];
      const int64_t stop = std::min(n, end);
      QTAPE_INDEPENDENT
      for (int64_t i = begin; i < stop; ++i) body(i, scale, zero_point);
      c = c + 1 == r.channels ? 0 : c + 1;
    }
  }
}

}  // namespace qtape
