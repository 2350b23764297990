// Nodes of integer programs, for code that reads or builds programs. A program is printed,
// saved and run without them.
#pragma once

#include <string>
#include <vector>

#include "qtape/integer/ops/integer_ops.h"
#include "qtape/integer/program/integer_program.h"

namespace qtape {

/// An integer op, its operands and its inferred value.
struct IntegerNode {
  IntegerOp op;
  std::vector<ProgramNodeId> operands;
  std::string label;   ///< unique unless empty
  IntegerValue value;  ///< inferred
  bool operator==(const IntegerNode&) const = default;
};

/// Returns the Input nodes, in order.
std::vector<ProgramNodeId> input_ids(const IntegerProgram& program);

/// Returns the type of the result.
inline const TensorType& type_of(const IntegerNode& node) { return node.value.type; }

}  // namespace qtape
