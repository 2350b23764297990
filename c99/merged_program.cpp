#include "qtape/c99/merged_program.h"

#include <algorithm>

namespace qtape {

NodeId add_once(IntegerProgram& program, IntegerOp op, std::span<const NodeId> operands,
                const std::string& label) {
  for (const NodeId id : ids(program)) {
    const IntegerNode& each = program[id];
    if (std::ranges::equal(each.operands, operands) && each.op == op) return id;
  }
  return program.add(std::move(op), operands, label);
}

RewrittenProgram merged(const IntegerProgram& program) {
  RewrittenProgram result{IntegerProgram(program.requantization()), {}};
  std::vector<NodeId> operands;
  for (const NodeId id : ids(program)) {
    const IntegerNode& node = program[id];
    operands.clear();
    for (NodeId each : node.operands) {
      operands.push_back(result.nodes[static_cast<size_t>(each.index)]);
    }
    const bool stays = operands.empty() || std::ranges::count(program.outputs(), id) > 0;
    result.nodes.push_back(stays ? result.program.add(node.op, operands, node.label)
                                 : add_once(result.program, node.op, operands, node.label));
  }
  std::vector<NodeId> outputs;
  for (NodeId id : program.outputs()) {
    outputs.push_back(result.nodes[static_cast<size_t>(id.index)]);
  }
  result.program.set_outputs(std::move(outputs));
  return result;
}

}  // namespace qtape
