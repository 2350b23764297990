// Lint: probable problems of a trained graph in integer arithmetic, with remedies.
#pragma once

#include <string>
#include <vector>

#include "qtape/core/fields.h"
#include "qtape/deploy/convert.h"

namespace qtape {

/// Importance of a finding.
enum class Severity : uint8_t {
  Error,    ///< cannot be converted
  Warning,  ///< converts, but probably with an unwanted result
  Note      ///< costs size or speed, or depends on the target
};
template <>
inline constexpr auto enum_names<Severity> =
    std::array<std::string_view, 3>{"error", "warning", "note"};

/// A finding at a node, with a remedy.
struct Finding {
  Severity severity = Severity::Note;
  std::string node;    ///< printable label, or the description of a node without one
  std::string what;    ///< the finding, with its numbers
  std::string remedy;  ///< recommended action

  static constexpr auto fields() {
    using F = Finding;
    return std::tuple{field("severity", &F::severity, "error, warning or note"),
                      field("node", &F::node, "label, or a description of the node"),
                      field("what", &F::what, "the problem"),
                      field("remedy", &F::remedy, "how to solve it")};
  }
  bool operator==(const Finding&) const = default;
};

/// `warning: fc1.weight.quantized: 2 of 64 channels (3, 9) have only the code 0; ...`
std::string to_string(const Finding& finding);

/// Outputs and thresholds of lint.
struct LintOptions {
  /// Nodes that should be integer outputs; empty: all answers of the graph, see
  /// Graph::answers.
  std::vector<NodeId> outputs = {};
  /// Fraction of clamped weights of a channel, in [0, 1], above which a warning is issued.
  double clamped_share = 0.1;
  /// Change of a bias by rounding, as a fraction (at least 0) of the largest bias, above which
  /// there is a warning.
  double bias_change = 0.01;
};

/// Returns all findings: errors first, then warnings, then notes, each in graph order. Findings
/// that require the integer program appear only if there are no errors. `parameters` are only
/// read. Throws GraphError for outputs that do not exist, ArgumentError for options out of
/// range.
std::vector<Finding> lint(const Graph& graph, const Parameters& parameters,
                          const LintOptions& options = {});
/// Returns the findings of an integer program: accumulators, biases, scale ratios and storage.
std::vector<Finding> lint(const IntegerProgram& program);

}  // namespace qtape
