// Vector loops of learned quantizers over one chunk of elements: the gradient of x, and sums
// for the gradients of scales. Used by ops/families/scale_gradients.h.
#pragma once

#include "qtape/kernels/quantize/quantize_kernels.h"

namespace qtape::kernels {

/// Treatment of the gradient dx: not computed, written or added to.
enum class Target : uint8_t { Unwanted, Write, Add };

/// With scales by segment, `first` and `second` are written: one number per segment begun. With
/// scales by column they are added to: one number per element. Sums use 64 lanes for every
/// instruction set. n <= quantize_chunk. dx may be dy, and is null if unwanted.
template <class S>
using LearnedLoop = void (*)(const S* x, const S* dy, S* dx, int64_t n,
                             const QuantizeChunk<typename Storage<S>::Compute>* chunk,
                             typename Storage<S>::Compute* first,
                             typename Storage<S>::Compute* second);

/// Learned step size, z = x / s: dx = dy, or dx += dy, inside the range, else 0.
/// `first`: the sum of dy (round(z) - z) over the elements inside the range, plus the sum of dy
/// (q_end - zp) over those outside, where q_end is the code limit on their side.
/// `second`: the sum of dy over the elements outside.
/// NaN elements contribute nothing.
template <class S>
LearnedLoop<S> step_size_loop(Rounding rounding, Division division, bool columns,
                              Target target);

/// Learned clipping value a (QuantizeChunk::clip): dx = dy, or dx += dy, for x inside the
/// range, else 0. `first`: the sum of dy over x >= a, minus the sum of dy over x <= -a for a
/// signed range.
template <class S>
LearnedLoop<S> clipping_loop(bool columns, Target target);

}  // namespace qtape::kernels
