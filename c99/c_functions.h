// The functions of a C program: a run, its parts, and what self-tests ask.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "qtape/c99/c_program.h"
#include "qtape/c99/c_source.h"

namespace qtape {

/// What the functions are made of.
struct CFunctions {
  const IntegerProgram& program;
  const CProgram& written;  ///< its steps, inputs and outputs
  std::string name;
  std::vector<std::string> places = {};  ///< by node: a pointer to its elements
  std::vector<std::string> bodies = {};  ///< by step: statements
  std::string rounding_check = {};       ///< a C function, or empty
};

/// The expression of a pointer to input or output `i`, or to the codes of an input.
std::string c_in_pointer(size_t i);
std::string c_codes_pointer(size_t i);
std::string c_out_pointer(size_t i);

/// Their definitions.
std::string c_functions(const CFunctions& functions);

/// The definition of NAME_constant_hash.
std::string c_constant_hash(std::string_view name, const std::vector<CSource::Array>& arrays);

/// The node with the codes that a step makes of `input`; `input` where none does.
NodeId c_codes_of(const IntegerProgram& program, const CProgram& written, NodeId input);

/// The version of qtape.
std::string_view c_writer_version();

}  // namespace qtape
