// The header of a C program: what a firmware calls.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "qtape/c99/c_program.h"
#include "qtape/c99/c_source.h"

namespace qtape {

/// What a header states beside a program and its texts.
struct CHeaderParts {
  std::string name;
  std::string sha256;
  std::vector<DType> arena = {};  ///< types of values in the arena
  CBuffer buffer = {};            ///< for CMSIS-NN
};

/// The parameters of NAME_run, or with `codes` of NAME_run_codes: `const float *x, float *y`.
std::string c_parameters(const IntegerProgram& program, const CProgram& written, bool codes);

/// NAME.h, of all that `written` tells beside its texts.
std::string c_header(const IntegerProgram& program, const CProgram& written,
                     const CHeaderParts& parts);

/// The inclusion of NAME.h, and a check that it is of the export `id`.
std::string c_include(std::string_view name, std::string_view id);

}  // namespace qtape
