#include "qtape/integer/program/output_names.h"

#include "qtape/engine/labels.h"
#include "qtape/integer/program/integer_node.h"

namespace qtape {
namespace {

/// Returns the label of the integers of a Dequantize if its own only adds a suffix to it, else
/// its own.
const std::string& label_of_integers(const IntegerProgram& program, ProgramNodeId id) {
  const IntegerNode& node = program[id];
  if (!std::holds_alternative<integer::Dequantize>(node.op)) return node.label;
  const std::string& integers = program[node.operands[0]].label;
  const bool own =
      !integers.empty() && (node.label.empty() || node.label == integers + ".value");
  return own ? integers : node.label;
}

}  // namespace

std::string output_label(const IntegerProgram& program, ProgramNodeId output) {
  const std::string& label = label_of_integers(program, output);
  std::string value = value_label(label);
  return value.empty() || program.find(value) ? label : value;
}

std::string output_name(const IntegerProgram& program, ProgramNodeId output) {
  std::string label = output_label(program, output);
  return label.empty() ? program.name(output) : label;
}

}  // namespace qtape
