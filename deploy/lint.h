// Lint: what may go wrong with a trained graph in integers, and what to do about it.
#pragma once

#include <string>
#include <vector>

#include "qtape/core/fields.h"
#include "qtape/deploy/convert.h"

namespace qtape {

/// How much a finding matters.
enum class Severity : uint8_t {
  Error,    ///< cannot be converted
  Warning,  ///< converts, and probably not to what is wanted
  Note      ///< costs size or speed, or depends on the target
};
template <>
inline constexpr auto enum_names<Severity> =
    std::array<std::string_view, 3>{"error", "warning", "note"};

/// What is the case at a node, and what helps.
struct Finding {
  Severity severity = Severity::Note;
  std::string node;    ///< printable label, or what describe says of a node without one
  std::string what;    ///< what is the case, with its numbers
  std::string remedy;  ///< what to do about it

  static constexpr auto fields() {
    using F = Finding;
    return std::tuple{field("severity", &F::severity, "error, warning or note"),
                      field("node", &F::node, "label, or what describes the node"),
                      field("what", &F::what, "what is the case"),
                      field("remedy", &F::remedy, "what to do about it")};
  }
  bool operator==(const Finding&) const = default;
};

/// `warning: fc1.weight.quantized: 2 of 64 channels (3, 9) have only codes 0; remove them, ...`
std::string to_string(const Finding& finding);

/// What is wanted in integers, and from where on findings are told.
struct LintOptions {
  /// Nodes that are wanted in integers; empty: the graph's first output.
  std::vector<NodeId> outputs = {};
  /// Share of a channel's weights, in [0, 1], above which clamping them is a warning.
  double clamped_share = 0.1;
  /// Share of the largest bias, at least 0, above which rounding biases is a warning.
  double bias_change = 0.01;
};

/// Everything that is found, errors first, then warnings, then notes, each in graph order. What
/// only the integer program shows is looked for once there are no errors. `parameters` are read
/// only. Throws GraphError for outputs that do not exist.
std::vector<Finding> lint(const Graph& graph, Parameters& parameters,
                          const LintOptions& options = {});
/// What the integers alone tell: accumulators, biases, ratios between grids, storage.
std::vector<Finding> lint(const IntegerProgram& program);

}  // namespace qtape
