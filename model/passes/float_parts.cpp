#include "qtape/model/passes/float_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "qtape/core/reasons.h"
#include "qtape/deploy/checks.h"
#include "qtape/engine/constants.h"
#include "qtape/engine/labels.h"
#include "qtape/engine/quantizers.h"
#include "qtape/integer/rules/analysis.h"
#include "qtape/integer/rules/rule_table.h"
#include "qtape/model/passes/insert_quantizers.h"
#include "qtape/model/passes/last_softmax.h"
#include "qtape/model/passes/norm_folds.h"

namespace qtape {
namespace {

/// Returns `Relu %7 'relu'`, without operands.
std::string short_name(const Graph& graph, NodeId id) {
  const std::string text = graph.describe(id);
  return text.substr(0, text.find(" ("));
}

/// Returns a copy with nodes at the same positions, in which `cut` are inputs. Its outputs are
/// `answers` and the operands of `cut`.
Graph with_inputs(const Graph& graph, const std::set<NodeId>& cut,
                  const std::vector<NodeId>& answers) {
  Graph result;
  const std::vector<bool> constant = constant_nodes(graph);
  std::vector<NodeId> outputs = answers;
  for (const NodeId id : ids(graph)) {
    const Node& node = graph[id];
    if (!cut.contains(id)) {
      (void)result.add(node.op, node.operands, node.label);
      continue;
    }
    const std::string label =
        node.label.empty() ? unused_label(graph, graph.name(id)) : node.label;
    // The nodes before the cut must stay needed.
    std::ranges::copy_if(node.operands, std::back_inserter(outputs),
                         [&](NodeId x) -> bool { return !constant[at(x)]; });
    (void)result.add(Input{.dtype = node.type.dtype, .shape = node.type.shape, .batch = false},
                     {}, label);
  }
  result.set_outputs(outputs, std::vector<NodeId>());
  return result;
}

/// By node of `copy`, which is `graph` with labelled nodes inserted: the node of `graph`.
std::vector<NodeId> origins(const Graph& copy, const Graph& graph) {
  std::vector<NodeId> found;
  int32_t next = 0;
  for (const Node& node : copy.nodes()) {
    if (!node.label.empty()) {
      found.push_back(graph.find(node.label).value_or(NodeId{}));
      continue;
    }
    while (!graph[NodeId{next}].label.empty()) ++next;
    found.push_back(NodeId{next++});
  }
  return found;
}

/// Returns `text` with node numbers of the copy replaced by those of the original.
std::string renumbered(const std::string& text, const std::vector<NodeId>& origins) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    result += text[i];
    size_t end = i + 1;
    while (text[i] == '%' && end < text.size() && std::isdigit(text[end]) != 0) ++end;
    if (end == i + 1 || end - i > 9) continue;
    const auto number = static_cast<size_t>(std::stol(text.substr(i + 1, end - i - 1)));
    const bool known = number < origins.size() && origins[number].index >= 0;
    result += std::to_string(known ? origins[number].index : static_cast<int32_t>(number));
    i = end - 1;
  }
  return result;
}

class Search {
 public:
  explicit Search(const Graph& graph) : graph_(graph), answers_(shipped_answers(graph)) {
    for (NormFold& each : norm_folds(graph)) norms_.emplace(each.norm, std::move(each));
  }

  /// Returns the nodes without an integer form in spite of quantizers wherever integers need
  /// one.
  std::vector<Finding> float_parts() {
    (void)float_nodes();
    return take();
  }

  /// Returns the nodes of `float_parts`.
  std::set<NodeId> float_nodes() {
    while (look(true)) {
    }
    std::set<NodeId> nodes;
    for (const auto& [id, part] : parts_) nodes.insert(id);
    return nodes;
  }

  /// Returns the other nodes that have no integer form yet.
  std::vector<Finding> unquantized_parts() {
    (void)float_parts();
    (void)look(false);
    return take();
  }

 private:
  std::vector<Finding> take() {
    std::vector<Finding> parts;
    for (auto& [id, part] : std::exchange(parts_, {})) parts.push_back(std::move(part));
    return parts;
  }

  /// Analyzes the graph with all nodes found so far as inputs, and with quantizers wherever
  /// integers need one if `completed`; true if it finds more.
  bool look(bool completed) {
    const Graph cut = with_inputs(graph_, cut_, answers_);
    const Graph ready = completed ? insert_quantizers(cut, calibrated_quantizers(8, 8)) : cut;
    const std::vector<NodeId> from = origins(ready, cut);
    const IntegerAnalysis analysis = analyze_integers(ready);
    const std::vector<bool> needed = needed_for(ready, ready.outputs());
    bool more = false;
    for (const NodeId id : ids(ready)) {
      const Verdict& verdict = analysis.refusal(id);
      if (!needed[at(id)] || verdict.reason.empty()) continue;
      more = note(from[at(id)], verdict, from) || more;
    }
    if (!parts_.empty()) return more;
    for (NodeId id : ready.outputs()) {
      const Verdict verdict = check_output(analysis[id], false);
      if (!verdict.reason.empty()) (void)note(from[at(id)], verdict, from);
    }
    return false;
  }

  /// Adds a finding; true if the node is new.
  bool note(NodeId id, const Verdict& verdict, const std::vector<NodeId>& from) {
    if (id.index < 0 || !cut_.insert(id).second) return false;
    const Node& node = graph_[id];
    // Its sum is the one without integers.
    if (std::holds_alternative<FakeQuantizeBias>(node.op)) return true;
    // The product before the bias is the one without integers.
    const bool bias = adds_bias(node.op) && cut_.contains(node.operands[0]);
    if (bias) return true;
    Finding part{.severity = Severity::Error,
                 .node = short_name(graph_, id),
                 .what = renumbered(verdict.reason, from),
                 .remedy = verdict.remedy};
    if (const auto norm = norms_.find(id);
        norm != norms_.end() && !norm->second.reason.empty()) {
      part.what = "cannot be folded: " + norm->second.reason;
      part.remedy = norm->second.remedy;
    }
    parts_.emplace(id, std::move(part));
    return true;
  }

  const Graph& graph_;
  std::vector<NodeId> answers_;
  std::map<NodeId, NormFold> norms_;
  std::set<NodeId> cut_;
  std::map<NodeId, Finding> parts_;
};

}  // namespace

std::vector<NodeId> shipped_answers(const Graph& graph) {
  const std::vector<NodeId> last = last_softmaxes(graph);
  std::vector<NodeId> answers;
  for (const NodeId answer : graph.answers()) {
    const NodeId id = scores_of(graph, answer);
    const bool left_out = std::ranges::find(last, id) != last.end();
    answers.push_back(left_out ? graph[id].operands[0] : before_softmax(graph, answer));
  }
  return answers;
}

std::vector<Finding> float_parts(const Graph& graph) { return Search(graph).float_parts(); }

std::vector<bool> replaceable_nodes(const Graph& graph) {
  const bool plain = quantizers(graph).empty();
  std::vector<bool> found(static_cast<size_t>(graph.size()), plain);
  if (plain) return found;
  for (const NodeId id : Search(graph).float_nodes()) found[at(id)] = true;
  return found;
}

std::vector<Finding> unquantized_parts(const Graph& graph) {
  if (quantizers(graph).empty()) return {};
  return Search(graph).unquantized_parts();
}

void require_no_float_parts(const std::vector<Finding>& parts, std::string_view way_out) {
  if (parts.empty()) return;
  Reasons reasons;
  for (const Finding& part : parts) {
    reasons.add(part.node, fmt::format("{}: {}", part.what, part.remedy));
  }
  fail<GraphError>("{} node{} would have no integer form: {}; {}", parts.size(),
                   parts.size() == 1 ? "" : "s", reasons.text(), way_out);
}

}  // namespace qtape
