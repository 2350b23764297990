// Vector loops of quantization over one chunk of elements, used by ops/families/quantizer.h.
#pragma once

#include <cstdint>
#include <limits>

#include "qtape/core/half.h"
#include "qtape/kernels/quantize/quantize.h"

namespace qtape::kernels {

/// Maximum number of elements of a chunk.
inline constexpr int64_t quantize_chunk = 16384;
/// Mask words per block of 512 elements; the last block may be partial.
inline constexpr int64_t mask_block_words = 8;
/// Several segments may share a masked chunk if their length is a multiple of this number.
inline constexpr int64_t mask_lanes = 16;

/// Parameters of the quantization of a chunk. T is float or double. With scales by segment,
/// `scale`, `inverse` and `zero_point` start at channel 0; with scales by column, at the first
/// element of the chunk.
template <class T>
struct QuantizeChunk {
  const T* scale = nullptr;
  const T* inverse = nullptr;  ///< 1 / scale
  const T* zero_point = nullptr;
  const T* clip = nullptr;           ///< clipping values, read only by clipping_loop
  int64_t segment = quantize_chunk;  ///< consecutive elements of one channel
  int64_t left = 0;                  ///< elements left of the first segment; 0 if it is whole
  int64_t channel = 0;               ///< channel of the first segment
  int64_t channels = 1;  ///< number of channels, after which segments start again at channel 0
  T q_min = 0;
  T q_max = 0;
  /// Tolerance below the range, in steps. Infinity: no element counts as below.
  T slack_low = 0;
  /// Tolerance above the range, in steps. Infinity: no element counts as above.
  T slack_high = 0;
  T gate = -std::numeric_limits<T>::infinity();  ///< elements below are masked out
  bool before = false;                           ///< ZeroPoint::BeforeRounding
  bool mask_by_value = false;                    ///< MaskRule::Value
  bool half_even = true;                         ///< Rounding::HalfEven
  bool away = false;   ///< if not half_even: ties away from zero instead of up
  bool exact = true;   ///< Division::Exact
  bool codes = false;  ///< y = code(x) instead of fake(x)
};

/// Range of the finite elements, and the number of elements that are not finite.
template <class T>
struct Extremes {
  ValueRange<T> range;
  int64_t non_finite = 0;

  void merge(const Extremes& other) {
    range.merge(other.range);
    non_finite += other.non_finite;
  }
};

/// Loops for storage type S, selected once when an op is bound. All run on n <= quantize_chunk
/// elements. A mask has one bit per element, in an order internal to these loops.
template <class S>
struct QuantizeLoops {
  using T = typename Storage<S>::Compute;
  using Quantize = void (*)(const S* x, S* y, uint64_t* mask, int64_t n,
                            const QuantizeChunk<T>*);
  using Measure = void (*)(const S* x, int64_t n, int64_t segment, T* min, T* max,
                           int64_t* non_finite);
  using MeasureColumns = void (*)(const S* x, int64_t n, T* min, T* max, int64_t* non_finite);

  Quantize quantize = nullptr;  ///< y = fake(x) or code(x), and the mask unless it is null
  /// Per segment, of which the last may be partial; min > max if no element is finite.
  Measure measure = nullptr;
  MeasureColumns measure_columns = nullptr;  ///< per element, merged into the current contents
};

/// Parameters by which a quantization loop is selected.
struct QuantizeVersion {
  Rounding rounding = Rounding::HalfEven;
  Division division = Division::Exact;
  bool masked = false;   ///< the mask is written
  bool columns = false;  ///< one scale per element
  bool plain = true;     ///< zero point after rounding, and values instead of codes
};
template <class S>
QuantizeLoops<S> quantize_loops(const QuantizeVersion& version);

/// dx (+)= dy where the mask holds, else 0.
template <class S>
using SelectLoop = void (*)(const S* dy, S* dx, const uint64_t* mask, int64_t n);
template <class S>
SelectLoop<S> select_loop(bool accumulate);

}  // namespace qtape::kernels
