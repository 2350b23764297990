// Operands of gradients' products, rounded to bf16.
#pragma once

#include "qtape/core/aligned.h"
#include "qtape/ops/core/op.h"

namespace qtape {

/// Whether this machine multiplies bf16.
bool machine_has_bf16();

/// Bytes of scratch for so many elements of bf16; the next ones stay aligned.
constexpr int64_t bf16_bytes(int64_t elements) {
  return aligned_size(elements * int64_t{sizeof(BHalf)});
}

/// Writes `elements` of f32 as bf16, rounded to the nearest even.
Kernel bind_rounding(const float* from, int64_t elements, BHalf* to, int threads);

/// The same of operand `i` in backward, be it values or codes.
Kernel bind_rounding(const Binding& binding, int i, BHalf* to);

}  // namespace qtape
