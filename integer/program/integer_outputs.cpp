#include "qtape/integer/program/integer_outputs.h"

#include <algorithm>

#include "qtape/engine/rewrite.h"
#include "qtape/integer/program/integer_node.h"

namespace qtape {
namespace {

/// Throws unless an output in floats can be left out.
void check_left_out(const IntegerProgram& program, ProgramNodeId id) {
  const std::string name = program.name(id);
  const auto* op = std::get_if<integer::Dequantize>(&program[id].op);
  check(op != nullptr, "output '{}': its floats are of {}, expected Dequantize", name,
        name_of(program[id].op));
  check(!op->low && !op->high, "output '{}': its floats are limited, the integers are not",
        name);
  for (const IntegerNode& node : program.nodes()) {
    check(std::ranges::count(node.operands, id) == 0, "output '{}': {} '{}' reads its floats",
          name, name_of(node.op), node.label);
  }
}

}  // namespace

IntegerProgram with_integer_outputs(const IntegerProgram& program) {
  NodeMap<char, IntegerProgram> left_out(program);
  for (const ProgramNodeId id : program.outputs()) {
    if (program[id].value.type.dtype != DType::F32) continue;
    check_left_out(program, id);
    left_out[id] = 1;
  }
  IntegerProgram result(program.requantization());
  rewrite(program, result, [&](ProgramNodeId id, const std::vector<ProgramNodeId>& operands) {
    if (left_out[id] != 0) return operands[0];
    return result.add(program[id].op, operands, program[id].label);
  });
  return result;
}

}  // namespace qtape
