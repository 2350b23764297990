// Conversion of integer programs to signed codes, which CMSIS-NN and TensorFlow Lite require.
#pragma once

#include "qtape/core/types.h"
#include "qtape/integer/program/merged_program.h"

namespace qtape {

/// Returns the offset between unsigned codes and the signed codes that replace them: 128 for
/// u8, 32768 for u16, 0 for all other dtypes.
int64_t signed_offset(DType dtype);

/// Returns `program` with s8 in place of u8 and s16 in place of u16. Codes and zero points are
/// reduced by signed_offset; real values, accumulators and rounding stay the same. An input
/// that is quantized with its zero point added before rounding is converted to signed codes by
/// an additional node, and so are means of codes, which round by the codes themselves.
RewrittenProgram with_signed_codes(const IntegerProgram& program);

}  // namespace qtape
