// The functions of a C program: run, its steps, and the functions for self-tests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "qtape/c99/c_program.h"
#include "qtape/c99/c_source.h"

namespace qtape {

/// Input of c_functions.
struct CFunctions {
  const IntegerProgram& program;
  const CProgram& written;  ///< its steps, inputs and outputs
  std::string name;
  std::vector<std::string> places = {};  ///< by node: a pointer to its elements
  std::vector<std::string> bodies = {};  ///< by step: statements
  std::string rounding_check = {};       ///< a C function, or empty
};

/// Returns the C expression of a pointer to input or output `i`, or to the codes of an input.
std::string c_in_pointer(size_t i);
std::string c_codes_pointer(size_t i);
std::string c_out_pointer(size_t i);

/// Returns the definitions of all functions.
std::string c_functions(const CFunctions& functions);

/// Returns the definition of NAME_constant_hash.
std::string c_constant_hash(std::string_view name, const std::vector<CSource::Array>& arrays);

/// Returns the node whose codes a step computes from `input`; `input` itself if there is none.
ProgramNodeId c_codes_of(const IntegerProgram& program, const CProgram& written,
                         ProgramNodeId input);

/// Returns the version of qtape.
std::string_view c_writer_version();

}  // namespace qtape
