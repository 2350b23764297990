// Vector loops of quantization over one run of elements. Kernels of ops/fake_quantize.cpp.
#pragma once

#include <cstdint>

#include "qtape/ops/core/half.h"
#include "qtape/ops/core/quantize.h"

namespace qtape {

/// Elements that a run given to these loops may have at most.
inline constexpr int64_t quantize_run = 16384;

/// What a run is quantized with. T is float or double.
template <class T>
struct QuantizeRun {
  const T* scale = nullptr;    ///< one, or one per element
  const T* inverse = nullptr;  ///< 1 / scale, laid out alike
  T q_min = 0;
  T q_max = 0;
  T mask_low = 0;   ///< lowest rounded code, or value in units of the scale, inside the range
  T mask_high = 0;  ///< highest
  bool mask_by_value = false;
  bool away = false;  ///< rounding other than half-even: ties away from zero instead of up
};

/// Largest finite |x| and the number of elements that are not finite.
template <class T>
struct Extremes {
  T max_abs = 0;
  int64_t non_finite = 0;
};

/// The loops for storage type S, chosen once when an op is bound. All run on n <= quantize_run
/// elements. A mask has one bit per element, 64 to a word, in an order that is these loops'
/// own.
template <class S>
struct QuantizeLoops {
  using T = typename Storage<S>::Compute;
  using Quantize = void (*)(const S* x, S* y, uint64_t* mask, int64_t n, const QuantizeRun<T>*);
  using Measure = void (*)(const S* x, int64_t n, Extremes<T>*);
  using MeasureColumns = void (*)(const S* x, int64_t n, T* max_abs, int64_t* non_finite);
  using Select = void (*)(const S* dy, S* dx, const uint64_t* mask, int64_t n);

  Quantize quantize = nullptr;  ///< y = fake(x), and the mask when asked for
  Measure measure = nullptr;
  MeasureColumns measure_columns = nullptr;  ///< per element, merged into what is there
  Select select = nullptr;                   ///< dx (+)= dy where the mask holds, else 0
};

/// `masked`: quantize writes the mask. `per_element`: scales are one per element.
template <class S>
QuantizeLoops<S> quantize_loops(Rounding rounding, Division division, bool masked,
                                bool per_element, bool accumulate);

}  // namespace qtape
