// The public header of a C program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "qtape/c99/c_program.h"
#include "qtape/c99/c_source.h"

namespace qtape {

/// Parts of a header that come neither from the program nor from `written`.
struct CHeaderParts {
  std::string name;
  std::string sha256;
  std::vector<DType> arena = {};  ///< types of values in the arena
  CBuffer buffer = {};            ///< scratch buffer for CMSIS-NN
};

/// Returns the parameters of NAME_run, or with `codes` of NAME_run_codes:
/// `const float *x, float *y`.
std::string c_parameters(const IntegerProgram& program, const CProgram& written, bool codes);

/// Returns NAME.h, from all members of `written` except its texts.
std::string c_header(const IntegerProgram& program, const CProgram& written,
                     const CHeaderParts& parts);

/// Returns the inclusion of NAME.h and a check that it belongs to the export `id`.
std::string c_include(std::string_view name, std::string_view id);

}  // namespace qtape
