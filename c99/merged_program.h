// Merging of equal nodes in integer programs.
#pragma once

#include <vector>

#include "qtape/integer/program/integer_program.h"

namespace qtape {

/// A program derived from another one, with the same results.
struct RewrittenProgram {
  IntegerProgram program;
  std::vector<NodeId> nodes;  ///< by node of the original program: the node that replaces it
};

/// Returns the node of `program` that applies `op` to `operands`; appends it if there is none.
NodeId add_once(IntegerProgram& program, IntegerOp op, std::span<const NodeId> operands,
                const std::string& label);

/// Returns `program` with nodes merged that apply the same op to the same operands. Inputs and
/// outputs are kept.
RewrittenProgram merged(const IntegerProgram& program);

}  // namespace qtape
