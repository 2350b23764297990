// From codes back to the values that they stand for.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

/// Writes the elements [begin, end) of an operand that is held as codes.
void decode(const EncodedOperand& operand, int64_t begin, int64_t end, float* to);

/// The kernel that writes all `elements` of it.
Kernel bind_decode(const EncodedOperand& operand, int64_t elements, float* to, int threads);

}  // namespace qtape
