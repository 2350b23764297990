// Merging of equal nodes in integer programs.
#pragma once

#include <vector>

#include "qtape/integer/program/integer_program.h"

namespace qtape {

/// A program derived from another one, with the same results.
struct RewrittenProgram {
  IntegerProgram program;
  /// By node of the original program: the node that replaces it.
  NodeMap<ProgramNodeId, IntegerProgram> nodes;
};

/// Returns the node of `program` that applies `op` to `operands`; appends it if there is none.
ProgramNodeId add_once(IntegerProgram& program, IntegerOp op,
                       std::span<const ProgramNodeId> operands, const std::string& label);

/// Returns `program` with nodes merged that apply the same op to the same operands. Inputs and
/// outputs are kept.
RewrittenProgram merged(const IntegerProgram& program);

}  // namespace qtape
