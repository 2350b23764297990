// From codes back to the values that they stand for.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

/// Writes the elements [begin, end) of an operand that is held as codes.
void decode(const EncodedOperand& operand, int64_t begin, int64_t end, float* to);

/// A rectangle of an operand [..., width]: rows of `columns` elements, the first at `begin`.
struct Rectangle {
  int64_t begin = 0;
  int64_t stride = 0;
  int64_t rows = 0;
  int64_t columns = 0;
};
/// Writes it as [rows, columns].
void decode(const EncodedOperand& operand, const Rectangle& part, float* to);

/// The kernel that writes all `elements` of it.
Kernel bind_decode(const EncodedOperand& operand, int64_t elements, float* to, int threads);

}  // namespace qtape
