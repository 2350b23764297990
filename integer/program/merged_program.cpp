#include "qtape/integer/program/merged_program.h"

#include <algorithm>

#include "qtape/engine/rewrite.h"
#include "qtape/integer/program/integer_node.h"

namespace qtape {

ProgramNodeId add_once(IntegerProgram& program, IntegerOp op,
                       std::span<const ProgramNodeId> operands, const std::string& label) {
  for (const ProgramNodeId id : ids(program)) {
    const IntegerNode& each = program[id];
    if (std::ranges::equal(each.operands, operands) && each.op == op) return id;
  }
  return program.add(std::move(op), operands, label);
}

RewrittenProgram merged(const IntegerProgram& program) {
  RewrittenProgram result{IntegerProgram(program.requantization()), {}};
  result.nodes = rewrite(program, result.program, [&](ProgramNodeId id, const auto& operands) {
    const IntegerNode& node = program[id];
    const bool stays = operands.empty() || std::ranges::count(program.outputs(), id) > 0;
    return stays ? result.program.add(node.op, operands, node.label)
                 : add_once(result.program, node.op, operands, node.label);
  });
  return result;
}

}  // namespace qtape
