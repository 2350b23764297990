#include "qtape/tools/qtape/compare_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "qtape/core/printable.h"
#include "qtape/deploy/multipliers.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/tools/qtape/json_report.h"

namespace qtape::tool {
namespace {

/// Returns the description of nodes, as `Reshape %5 'flat' (%4 ...)`.
std::vector<std::string> descriptions(const IntegerProgram& program,
                                      std::span<const ProgramNodeId> nodes) {
  std::vector<std::string> all;
  for (const ProgramNodeId id : nodes) all.push_back(program.describe(id));
  return all;
}

/// Returns the label, or the labels in both programs if they differ.
std::string text_of(const ComparedNodeReport& node) {
  return node.label == node.label_b
             ? printable(node.label)
             : fmt::format("{} = {}", printable(node.label), printable(node.label_b));
}

std::string largest_text(double largest) {
  return largest == std::floor(largest) ? fmt::format("{}", largest)
                                        : fmt::format("{:.4g}", largest);
}

std::string line_of(const ComparedNodeReport& node, size_t width) {
  std::string line = fmt::format("{:<{}} {:>10} {:>10}", text_of(node), width, node.compared,
                                 node.comparable ? fmt::format("{}", node.differ) : "-");
  if (node.first) {
    line += fmt::format(" {:>10}  sample {} index {}: {} and {}", largest_text(node.largest),
                        node.first->sample, node.first->index, number_text(node.first->a),
                        number_text(node.first->b));
  }
  if (node.differ > 0 || !node.comparable) {
    line += node.inputs_agree ? "  begins here" : "  inherited";
  }
  return line;
}

void print_nodes(const CompareReport& report) {
  constexpr size_t widest = 60;
  size_t width = 0;
  for (const ComparedNodeReport& node : report.nodes) {
    width = std::clamp(text_of(node).size(), width, widest);
  }
  fmt::print("{:<{}} {:>10} {:>10} {:>10}  {}\n", "node", width, "compared", "differ",
             "largest", "first");
  for (const ComparedNodeReport& node : report.nodes) {
    fmt::print("{}\n", line_of(node, width));
    if (node.shift != 0) {
      fmt::print("    codes of B are {} larger for the same values\n", node.shift);
    }
    for (const NumberDifference& each : node.numbers) {
      fmt::print("    {}\n", to_string(each));
    }
  }
}

void print_unpaired(std::string_view program, const std::vector<std::string>& nodes) {
  for (const std::string& each : nodes) fmt::print("only in {}: {}\n", program, each);
}

}  // namespace

CompareReport comparison_report(const ProgramComparison& comparison) {
  const IntegerProgram& a = comparison.program_a();
  const IntegerProgram& b = comparison.program_b();
  CompareReport report{.requantization_a = a.requantization(),
                       .requantization_b = b.requantization(),
                       .differ = comparison.differences(),
                       .only_in_a = descriptions(a, comparison.only_in_a()),
                       .only_in_b = descriptions(b, comparison.only_in_b())};
  for (const NodeComparison& node : comparison.nodes()) {
    report.nodes.push_back({a.name(node.a), b.name(node.b), std::string(name_of(a[node.a].op)),
                            node.comparable, node.shift, node.compared, node.differ,
                            node.largest, node.first, node.inputs_agree, node.numbers});
  }
  if (const NodeComparison* first = comparison.first_difference()) {
    report.first_difference = {a.name(first->a), comparison.reason(*first)};
  }
  return report;
}

void print(const CompareReport& report) {
  print_nodes(report);
  print_unpaired("A", report.only_in_a);
  print_unpaired("B", report.only_in_b);
  fmt::print("{}{} random inputs: ",
             report.samples > 0 ? counted(report.samples, "sample") + " and " : "",
             report.random_inputs);
  if (report.differ == 0) {
    const auto different = std::ranges::count_if(
        report.nodes, [](const ComparedNodeReport& node) { return !node.numbers.empty(); });
    fmt::print("A and B agree in every element of {} nodes{}\n", report.nodes.size(),
               different == 0 ? ""
                              : fmt::format("; other numbers of {} of them have no effect here",
                                            different));
    return;
  }
  fmt::print("{} elements differ\n", report.differ);
  if (report.first_difference) {
    fmt::print("first difference, at {}: {}\n", printable(report.first_difference->label),
               report.first_difference->reason);
  }
}

}  // namespace qtape::tool
