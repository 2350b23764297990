#include "qtape/tools/qtape/preparation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "qtape/core/printable.h"
#include "qtape/engine/quantizers.h"
#include "qtape/model/passes/float_parts.h"
#include "qtape/model/passes/last_softmax.h"
#include "qtape/model/passes/rewrite_layers.h"
#include "qtape/model/passes/training_norms.h"
#include "qtape/programs/console/standard_output.h"
#include "qtape/tools/qtape/json_report.h"

namespace qtape::tool {

int code_bits(const Graph& graph, NodeId quantizer) {
  const CodeLimits limits = grid_of(graph, quantizer).limits;
  return static_cast<int>(std::bit_width(static_cast<uint32_t>(limits.q_max - limits.q_min)));
}

namespace {

constexpr size_t max_names = 8;

std::string names_of(const std::vector<std::string>& labels) {
  std::vector<std::string> names;
  for (const std::string& each : labels) {
    if (names.size() == max_names) break;
    names.push_back(printable(each));
  }
  const size_t more = labels.size() - names.size();
  return fmt::format("{}{}", fmt::join(names, ", "),
                     more == 0 ? "" : fmt::format(" and {} more", more));
}

void say(std::string_view verb, std::string_view noun, const std::vector<std::string>& labels,
         std::string_view end) {
  if (labels.empty()) return;
  console::print("{} {}{}: {}\n", verb, counted(std::ssize(labels), noun), end,
                 names_of(labels));
}

}  // namespace

Model rewritten(Model model, Preparation& report, std::vector<Finding>& refused) {
  RewrittenLayers result = rewrite_layers(model.graph(), model.parameters());
  refused = std::move(result.refused);
  if (!result.model) return model;
  say("folded", "batch norm", result.folded, " into weights");
  std::ranges::move(result.folded, std::back_inserter(report.folded_norms));
  report.rewritten_layers = std::move(result.rewritten);
  say("rewrote", "layer", report.rewritten_layers, " in a form that has integers");
  return Model(std::move(*result.model));
}

Model with_training_norms(Model model, TrainingPreparation& report) {
  TrainingNorms norms = qtape::with_training_norms(model.graph(), model.parameters());
  if (!norms.model) return model;
  say("kept", "batch norm", norms.folded, " in training, folded into weights in each step");
  report.training_norms = std::move(norms.folded);
  return Model(std::move(*norms.model));
}

namespace {

/// Prints the last Softmax and LogSoftmax nodes; true if there are any.
bool say_last_softmaxes(const Graph& graph) {
  const std::vector<NodeId> last = last_softmaxes(graph);
  for (const NodeId id : last) {
    const std::string text = graph.describe(id);
    console::print(
        "{} is left out: the answer is its operand, with the same order of classes\n",
        text.substr(0, text.find(" (")));
  }
  return !last.empty();
}

}  // namespace

SavedModel before_softmax(SavedModel model) {
  if (say_last_softmaxes(model.graph)) model.graph = without_last_softmaxes(model.graph);
  return model;
}

Model before_softmax(Model model) {
  if (!say_last_softmaxes(model.graph())) return model;
  return {without_last_softmaxes(model.graph()), model.parameters()};
}

namespace {

void print(std::string_view text, const std::vector<Finding>& parts) {
  for (const Finding& part : parts) {
    console::print("{}: {}: {}; {}\n", text, part.node, part.what, part.remedy);
  }
}

void judge(const Graph& graph, const std::vector<Finding>& parts, bool allowed) {
  if (!allowed) {
    require_no_float_parts(parts, quantizers(graph).empty()
                                      ? "--float-parts leaves them in floats"
                                      : "--float-parts leaves them in floats, and qtape train "
                                        "then replaces quantizers of fixed scales");
  }
  print("remains in floats", parts);
}

}  // namespace

void judge(const Graph& graph, bool allowed, Preparation& report, std::vector<Finding> more) {
  report.float_parts = float_parts(graph);
  std::ranges::move(more, std::back_inserter(report.float_parts));
  judge(graph, report.float_parts, allowed);
}

void judge_unquantized(const Graph& graph, bool allowed, Preparation& report) {
  report.unquantized_parts = unquantized_parts(graph);
  if (!allowed) {
    require_no_float_parts(report.unquantized_parts,
                           "qtape calibrate --complete adds quantizers, --float-parts leaves "
                           "them in floats");
  }
  print("not quantized yet", report.unquantized_parts);
}

namespace {

/// Returns a text without the indices of nodes, which new quantizers change.
std::string without_indices(std::string text) {
  for (size_t begin = text.find('%'); begin != std::string::npos; begin = text.find('%')) {
    text.erase(begin, text.find_first_not_of("0123456789 ", begin + 1) - begin);
  }
  return text;
}

}  // namespace

void judge_quantized(const Graph& graph, bool allowed, Preparation& report) {
  std::vector<Finding> more = float_parts(graph);
  for (const Finding& known : report.float_parts) {
    const auto same = std::ranges::find_if(more, [&](const Finding& part) {
      return without_indices(part.node) == without_indices(known.node) &&
             without_indices(part.what) == without_indices(known.what);
    });
    if (same != more.end()) more.erase(same);
  }
  judge(graph, more, allowed);
  report.float_parts.insert(report.float_parts.end(), more.begin(), more.end());
}

std::vector<Finding> float_parts_later(const Graph& graph, const RewrittenLayers& later) {
  std::vector<Finding> parts = float_parts(later.model ? later.model->graph : graph);
  if (later.model) {
    for (Finding& each : parts) each.node = without_indices(each.node);
  }
  parts.insert(parts.end(), later.refused.begin(), later.refused.end());
  return parts;
}

void judge_rewritten(const Graph& graph, const Parameters& parameters, bool allowed,
                     TrainingPreparation& report) {
  const RewrittenLayers later = rewrite_layers(graph, parameters);
  report.training_norms = qtape::with_training_norms(graph, parameters).folded;
  std::vector<std::string> others;
  for (const std::string& each : later.folded) {
    if (std::ranges::find(report.training_norms, each) == report.training_norms.end()) {
      others.push_back(each);
    }
  }
  say("kept", "batch norm", report.training_norms,
      " for training, which qtape calibrate folds");
  say("kept", "batch norm", others, " that quantization folds");
  report.float_parts = float_parts_later(graph, later);
  judge(graph, report.float_parts, allowed);
}

void say_warnings(const Graph& graph, const Parameters& parameters, const std::string& file) {
  if (file.empty() || quantizers(graph).empty()) return;
  const auto warnings =
      std::ranges::count(lint(graph, parameters), Severity::Warning, &Finding::severity);
  if (warnings == 0) return;
  console::print("{} of the integer form: qtape lint {} lists {}\n",
                 counted(warnings, "warning"), file, warnings == 1 ? "it" : "them");
}

Model prepared(Model model, bool float_parts, Preparation& report) {
  std::vector<Finding> refused;
  Model result = rewritten(std::move(model), report, refused);
  require_no_float_parts(refused, no_floats_beside);
  judge(result.graph(), float_parts, report);
  return result;
}

}  // namespace qtape::tool
