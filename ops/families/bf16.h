// Rounding to bf16 of the operands of products in gradients.
#pragma once

#include "qtape/core/aligned.h"
#include "qtape/ops/core/op.h"

namespace qtape {

/// True if this processor supports products of bf16.
bool machine_has_bf16();

/// Bytes of scratch for `elements` elements of bf16, rounded up to the tensor alignment.
constexpr int64_t bf16_bytes(int64_t elements) {
  return aligned_size(elements * int64_t{sizeof(BHalf)});
}

/// Kernel that writes `elements` elements of f32 as bf16, rounded to nearest even.
Kernel bind_rounding(const float* from, int64_t elements, BHalf* to, int threads);

/// Kernel that writes operand `i` of backward, held as values or as codes, as bf16.
Kernel bind_rounding(const Binding& binding, int i, BHalf* to);

}  // namespace qtape
