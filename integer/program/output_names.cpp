#include "qtape/integer/program/output_names.h"

#include <string_view>

#include "qtape/engine/labels.h"
#include "qtape/integer/program/integer_node.h"

namespace qtape {
namespace {

/// Returns the label of a node or, for a Dequantize whose label only adds a suffix to that of
/// its integers, that one. Equal quantizers may have become one node with the label of the
/// other.
std::string label_of_integers(const IntegerProgram& program, ProgramNodeId id) {
  constexpr std::string_view suffix = ".value";
  const IntegerNode& node = program[id];
  if (!std::holds_alternative<integer::Dequantize>(node.op)) return node.label;
  const std::string& integers = program[node.operands[0]].label;
  if (node.label.empty()) return integers;
  if (!node.label.ends_with(suffix)) return node.label;
  std::string label = node.label.substr(0, node.label.size() - suffix.size());
  const bool merged = !value_label(label).empty() && !program.find(label);
  return label == integers || merged ? label : node.label;
}

}  // namespace

std::string output_label(const IntegerProgram& program, ProgramNodeId output) {
  const std::string label = label_of_integers(program, output);
  std::string value = value_label(label);
  return value.empty() || program.find(value) ? label : value;
}

std::string output_name(const IntegerProgram& program, ProgramNodeId output) {
  std::string label = output_label(program, output);
  return label.empty() ? program.name(output) : label;
}

}  // namespace qtape
