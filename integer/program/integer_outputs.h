// Programs that end in integers.
#pragma once

#include "qtape/integer/program/integer_program.h"

namespace qtape {

/// Returns `program` with outputs in integers: those that its last Dequantize nodes read, which
/// are left out. Outputs in integers are kept. Throws GraphError, naming the output, for floats
/// that are limited, used by other nodes or made otherwise.
IntegerProgram with_integer_outputs(const IntegerProgram& program);

}  // namespace qtape
