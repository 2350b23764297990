// The header of a C program: what a firmware calls.
#pragma once

#include <string>
#include <string_view>

#include "qtape/integer/c/c_program.h"

namespace qtape {

/// The parameters of NAME_run, or with `codes` of NAME_run_codes: `const float *x, float *y`.
std::string c_parameters(const IntegerProgram& program, const CProgram& written, bool codes);

/// NAME.h, of all that `written` tells beside its texts.
std::string c_header(const IntegerProgram& program, const CProgram& written,
                     std::string_view name);

}  // namespace qtape
