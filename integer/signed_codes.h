// Integer programs whose codes are all signed, as CMSIS-NN wants them.
#pragma once

#include <vector>

#include "qtape/integer/integer_program.h"

namespace qtape {

/// A program that computes the same values on signed codes.
struct SignedProgram {
  IntegerProgram program;
  std::vector<NodeId> nodes;  ///< by node of the program it was made of: the one in its place
};

/// What u8 and u16 codes are more than the s8 and s16 codes in their place: 128 or 32768; 0 of
/// all else.
int64_t signed_offset(DType dtype);

/// `program` with s8 for u8 and s16 for u16: codes and zero points are less by signed_offset,
/// values, accumulators and rounding are the same. Inputs that are quantized with their zero
/// point before rounding are made signed by a further node.
SignedProgram with_signed_codes(const IntegerProgram& program);

}  // namespace qtape
