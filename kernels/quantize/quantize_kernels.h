// Vector loops of quantization over one chunk of elements, for ops/families/quantizer.h.
#pragma once

#include <cstdint>
#include <limits>

#include "qtape/core/half.h"
#include "qtape/kernels/quantize/quantize.h"

namespace qtape::kernels {

/// Elements that a chunk given to these loops may have at most.
inline constexpr int64_t quantize_chunk = 16384;
/// Mask words are written in blocks of so many for each 512 elements begun.
inline constexpr int64_t mask_block_words = 8;
/// Several segments may share a masked chunk if their length is a multiple of this.
inline constexpr int64_t mask_lanes = 16;

/// What a chunk is quantized with. T is float or double. With scales by segment, `scale`,
/// `inverse` and `zero_point` begin at channel 0; with scales by column, at the chunk's first.
template <class T>
struct QuantizeChunk {
  const T* scale = nullptr;
  const T* inverse = nullptr;  ///< 1 / scale
  const T* zero_point = nullptr;
  const T* clip = nullptr;           ///< clipping values, for clipping_loop alone
  int64_t segment = quantize_chunk;  ///< consecutive elements of one channel
  int64_t left = 0;                  ///< elements of the first segment; 0: all of them
  int64_t channel = 0;               ///< of the first segment
  int64_t channels = 1;              ///< after which segments begin at channel 0 again
  T q_min = 0;
  T q_max = 0;
  T slack_low = 0;   ///< infinity: nothing counts as below the range
  T slack_high = 0;  ///< infinity: nothing counts as above
  T gate = -std::numeric_limits<T>::infinity();  ///< what is below is masked
  bool before = false;                           ///< ZeroPoint::BeforeRounding
  bool mask_by_value = false;                    ///< MaskRule::Value
  bool half_even = true;                         ///< Rounding::HalfEven
  bool away = false;   ///< rounding other than half-even: ties away from zero instead of up
  bool exact = true;   ///< Division::Exact
  bool codes = false;  ///< y = code(x) instead of fake(x)
};

/// Range of the finite elements, and how many are not finite.
template <class T>
struct Extremes {
  ValueRange<T> range;
  int64_t non_finite = 0;

  void merge(const Extremes& other) {
    range.merge(other.range);
    non_finite += other.non_finite;
  }
};

/// The loops for storage type S, chosen once when an op is bound. All run on n <=
/// quantize_chunk elements. A mask has one bit per element, in an order that is these loops'
/// own.
template <class S>
struct QuantizeLoops {
  using T = typename Storage<S>::Compute;
  using Quantize = void (*)(const S* x, S* y, uint64_t* mask, int64_t n,
                            const QuantizeChunk<T>*);
  using Measure = void (*)(const S* x, int64_t n, int64_t segment, T* min, T* max,
                           int64_t* non_finite);
  using MeasureColumns = void (*)(const S* x, int64_t n, T* min, T* max, int64_t* non_finite);

  Quantize quantize = nullptr;  ///< y = fake(x) or code(x), and the mask unless it is null
  /// Per segment, the last of which may be cut; min > max where nothing is finite.
  Measure measure = nullptr;
  MeasureColumns measure_columns = nullptr;  ///< per element, merged into what is there
};

/// What the loops of quantize are chosen by.
struct QuantizeVersion {
  Rounding rounding = Rounding::HalfEven;
  Division division = Division::Exact;
  bool masked = false;   ///< the mask is written
  bool columns = false;  ///< scales are one per element
  bool plain = true;     ///< zero point after rounding, and values, not codes
};
template <class S>
QuantizeLoops<S> quantize_loops(const QuantizeVersion& version);

/// dx (+)= dy where the mask holds, else 0.
template <class S>
using SelectLoop = void (*)(const S* dy, S* dx, const uint64_t* mask, int64_t n);
template <class S>
SelectLoop<S> select_loop(bool accumulate);

}  // namespace qtape::kernels
