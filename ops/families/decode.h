// Conversion of codes to values.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

/// Writes elements [begin, end) of an operand held as codes.
void decode(const EncodedOperand& operand, int64_t begin, int64_t end, float* to);

/// A rectangle of an operand [..., width]: rows of `columns` elements, the first at `begin`.
struct Rectangle {
  int64_t begin = 0;
  int64_t stride = 0;
  int64_t rows = 0;
  int64_t columns = 0;
};
/// Writes a rectangle as [rows, columns].
void decode(const EncodedOperand& operand, const Rectangle& part, float* to);

/// Kernel that writes all `elements` elements of the operand.
Kernel bind_decode(const EncodedOperand& operand, int64_t elements, float* to, int threads);

}  // namespace qtape
