// Vector loops of learned quantizers over one chunk of elements: gradients of x, and sums for
// the gradients of scales. For ops/core/scale_gradients.h.
#pragma once

#include "qtape/kernels/quantize/quantize_kernels.h"

namespace qtape::kernels {

/// What becomes of a gradient.
enum class Target : uint8_t { Unwanted, Write, Add };

/// With scales by segment `first` and `second` are written, one number per segment begun; with
/// scales by column they are added to, one number per element. Sums run over 64 lanes whatever
/// the instruction set. n <= quantize_chunk. dx may be dy, and
/// null when unwanted.
template <class S>
using LearnedLoop = void (*)(const S* x, const S* dy, S* dx, int64_t n,
                             const QuantizeChunk<typename Storage<S>::Compute>* chunk,
                             typename Storage<S>::Compute* first,
                             typename Storage<S>::Compute* second);

/// Learned step size: dx = or += dy inside the range, else 0. `first` gets the sum of dy
/// (round(z)
/// - z) over elements inside and of dy times the end's distance from the zero point over those
/// outside, z = x / s; `second` the sum of dy outside. NaN counts nowhere.
template <class S>
LearnedLoop<S> step_size_loop(Rounding rounding, Division division, bool columns,
                              Target target);

/// Learned clipping value a, given as QuantizeChunk::clip: dx = or += dy where x lies within,
/// else 0. `first` gets the sum of dy where x >= a less that where x <= -a, for a signed range.
template <class S>
LearnedLoop<S> clipping_loop(bool columns, Target target);

}  // namespace qtape::kernels
