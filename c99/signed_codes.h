// Integer programs whose codes are all signed, as CMSIS-NN wants them.
#pragma once

#include "qtape/c99/c_kernels.h"
#include "qtape/integer/merged_program.h"

namespace qtape {

/// What u8 and u16 codes are more than the s8 and s16 codes in their place: 128 or 32768; 0 of
/// all else.
int64_t signed_offset(DType dtype);

/// `program` with s8 for u8 and s16 for u16: codes and zero points are less by signed_offset,
/// values, accumulators and rounding are the same. Inputs that are quantized with their zero
/// point before rounding are made signed by a further node.
RewrittenProgram with_signed_codes(const IntegerProgram& program);

/// The program that C is made of: `program` merged, and for CMSIS-NN with signed codes.
RewrittenProgram program_for_c(const IntegerProgram& program, CKernels kernels);

}  // namespace qtape
