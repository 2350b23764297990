// Integer programs in which nothing is computed twice.
#pragma once

#include <vector>

#include "qtape/integer/integer_program.h"

namespace qtape {

/// A program made of another one, which computes the same.
struct RewrittenProgram {
  IntegerProgram program;
  std::vector<NodeId> nodes;  ///< by node of the program it was made of: the one in its place
};

/// The node of `program` that applies `op` to `operands`, appended where there is none.
NodeId add_once(IntegerProgram& program, IntegerOp op, std::span<const NodeId> operands,
                const std::string& label);

/// `program` with one node for several that apply the same op to the same operands. Inputs and
/// outputs stay.
RewrittenProgram merged(const IntegerProgram& program);

}  // namespace qtape
