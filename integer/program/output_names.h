// Names of the outputs of programs.
#pragma once

#include <string>

#include "qtape/integer/program/integer_program.h"

namespace qtape {

/// Returns the label of an output or, for the floats of a node with integers, that of the node.
/// A quantized value has its own label instead of that of its quantizer, `NAME` for
/// `NAME.quantized`, unless another node has it. Empty if there is no label.
std::string output_label(const IntegerProgram& program, ProgramNodeId output);
/// Returns the same, or `%7` if it is empty.
std::string output_name(const IntegerProgram& program, ProgramNodeId output);

}  // namespace qtape
