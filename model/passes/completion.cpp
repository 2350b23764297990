#include "qtape/model/passes/completion.h"

#include <fmt/format.h>

#include <map>
#include <vector>

#include "qtape/engine/quantizers.h"
#include "qtape/integer/rules/analysis.h"
#include "qtape/integer/rules/rule_table.h"
#include "qtape/model/passes/float_parts.h"

namespace qtape {
namespace {

/// Copies a graph node by node, and quantizes what a node lacks when it is added.
class Completion {
 public:
  Completion(const Graph& graph, const Op& quantizer)
      : graph_(graph), quantizer_(quantizer), analysis_(scratch_) {}

  std::set<NodeId> run() {
    const std::vector<bool> needed = needed_for(graph_, shipped_answers(graph_));
    for (const NodeId id : ids(graph_)) {
      if (needed[at(id)]) add(id);
    }
    return std::move(found_);
  }

 private:
  // Longer ways from a node to the quantizers before it are left to the next pass.
  static constexpr int max_depth = 32;

  struct Copy {
    NodeId made;
    std::vector<NodeId> operands;  // of `made`
    size_t checked = 0;            // number of quantizers for which it is the latest
  };

  /// Adds a copy of a node, again for each quantizer that it needs.
  void add(NodeId id) {
    while (true) {
      const NodeId made = copy(id, latest_operands(id, max_depth));
      const NodeId lacking = analysis_.extend().refusal(made).unquantized;
      if (lacking.index < 0 || !quantize(lacking)) return;
      if (latest_operands(id, max_depth) == copies_.at(id).operands) return;
    }
  }

  NodeId copy(NodeId id, const std::vector<NodeId>& operands) {
    const Node& node = graph_[id];
    // Leaves need labels; their own could be those of quantizers here.
    const std::string label = operands.empty() ? fmt::format("leaf {}", id.index) : "";
    const NodeId made = scratch_.add(node.op, operands, label);
    copies_[id] = {made, operands, found_.size()};
    sources_[made] = id;
    return made;
  }

  /// Adds a quantizer after the source of a copy; false if it has one or is none of the graph.
  bool quantize(NodeId made) {
    const auto source = sources_.find(made);
    if (source == sources_.end() || !found_.insert(source->second).second) return false;
    quantized_[source->second] =
        add_quantizer(scratch_, copies_.at(source->second).made, quantizer_,
                      fmt::format("completion {}", found_.size()));
    return true;
  }

  std::vector<NodeId> latest_operands(NodeId id, int depth) {
    const Node& node = graph_[id];
    std::vector<NodeId> operands;
    for (size_t k = 0; k < node.operands.size(); ++k) {
      const NodeId operand = node.operands[k];
      const bool bias = static_cast<int>(k) == bias_operand(node.op);
      operands.push_back(bias ? copies_.at(operand).made : latest(operand, depth));
    }
    return operands;
  }

  /// Returns the copy of a node that reads the latest quantizers.
  NodeId latest(NodeId id, int depth) {
    if (const auto found = quantized_.find(id); found != quantized_.end()) return found->second;
    const Node& node = graph_[id];
    Copy& known = copies_.at(id);
    if (known.checked == found_.size() || depth == 0 || is_quantizer(node.op))
      return known.made;
    const std::vector<NodeId> operands = latest_operands(id, depth - 1);
    known.checked = found_.size();
    return operands == known.operands ? known.made : copy(id, operands);
  }

  const Graph& graph_;
  const Op& quantizer_;
  Graph scratch_;
  GrowingAnalysis analysis_;
  std::map<NodeId, Copy> copies_;
  std::map<NodeId, NodeId> sources_;    // of copies
  std::map<NodeId, NodeId> quantized_;  // quantizers of found nodes
  std::set<NodeId> found_;
};

}  // namespace

std::set<NodeId> unquantized_nodes(const Graph& graph) {
  const IntegerAnalysis analysis = analyze_integers(graph);
  const std::vector<NodeId> answers = shipped_answers(graph);
  const std::vector<bool> needed = needed_for(graph, answers);
  std::set<NodeId> found;
  for (int32_t i = 0; i < graph.size(); ++i) {
    const NodeId id = analysis.refusal(NodeId{i}).unquantized;
    if (needed[static_cast<size_t>(i)] && id.index >= 0) found.insert(id);
  }
  for (NodeId id : answers) {
    const Node& origin = graph[analysis.origin(id)];
    const bool given =
        std::holds_alternative<Input>(origin.op) && origin.type.dtype == DType::F32;
    if (analysis[id].kind == IntegerKind::Pending || given) found.insert(id);
  }
  return found;
}

std::set<NodeId> unquantized_in_order(const Graph& graph, const Op& quantizer) {
  std::set<NodeId> found = Completion(graph, quantizer).run();
  return found.empty() ? unquantized_nodes(graph) : found;
}

int bias_operand(const Op& op) {
  if (std::holds_alternative<FakeQuantizeBias>(op)) return 0;
  return adds_bias(op) ? 1 : -1;
}

}  // namespace qtape
