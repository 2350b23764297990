#include "qtape/deploy/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "qtape/deploy/checks.h"
#include "qtape/engine/tape.h"
#include "qtape/ops/quantizer_ops.h"

namespace qtape {
namespace {

/// Groups nodes into connected parts, each in graph order. One tape of the whole graph per
/// weight would take quadratic time; one tape for all weights would stop at the first fault.
std::vector<std::vector<NodeId>> parts_of(const Graph& graph, const std::vector<bool>& needed) {
  std::vector<size_t> parent(needed.size());
  std::iota(parent.begin(), parent.end(), size_t{0});
  const auto root = [&](size_t i) {
    for (; parent[i] != i; i = parent[i]) parent[i] = parent[parent[i]];
    return i;
  };
  for (size_t i = 0; i < needed.size(); ++i) {
    if (!needed[i]) continue;
    for (NodeId operand : graph.nodes()[i].operands) {
      parent[root(at(operand))] = root(i);
    }
  }
  std::vector<std::vector<NodeId>> by_root(needed.size());
  for (size_t i = 0; i < needed.size(); ++i) {
    if (needed[i]) by_root[root(i)].push_back(NodeId{static_cast<int32_t>(i)});
  }
  std::erase_if(by_root, [](const auto& part) { return part.empty(); });
  return by_root;
}

class Part {
 public:
  /// `copies` must have room for every node of `graph`.
  Part(const Graph& graph, std::span<const NodeId> nodes, NodeMap<NodeId>& copies)
      : graph_(graph), nodes_(nodes), copies_(copies) {
    for (NodeId id : nodes) {
      std::vector<NodeId> operands;
      for (NodeId operand : graph[id].operands) operands.push_back(copy(operand));
      copy(id) = part_.add(graph[id].op, operands, graph[id].label);
    }
  }

  template <class Visit>
  void run(const Parameters& parameters, std::span<const NodeId> weights,
           const Visit& visit) const {
    TapeOptions options{.threads = 1,
                        .arithmetic = exact(Requantization::FloatMultiply, {.keep = true})};
    for (NodeId id : weights) {
      options.outputs.push_back(copy(id));
      if (is_quantizer(graph_[id].op)) {
        options.outputs.push_back(copy(graph_[id].operands[0]));
      }
    }
    try {
      Tape tape(part_, parameters, std::move(options));
      tape.forward(mode::eval);
      for (NodeId id : weights) {
        WeightView view{.values = tape.value<float>(copy(id))};
        if (is_quantizer(graph_[id].op)) {
          view.raw = tape.value<float>(copy(graph_[id].operands[0]));
          view.codes = tape.integers(copy(id));
          view.qparams = tape.qparams(copy(id));
        }
        visit(id, view);
      }
    } catch (const GraphError& error) {
      report(error.what(), weights, visit);
    }
  }

 private:
  NodeId& copy(NodeId id) const { return copies_[id]; }

  /// Reports the weights that depend on the node named by the error.
  template <class Visit>
  void report(const std::string& error, std::span<const NodeId> weights,
              const Visit& visit) const {
    const auto prefix = [&](NodeId id) { return part_.describe(copy(id)) + ": "; };
    const auto named =
        std::ranges::find_if(nodes_, [&](NodeId id) { return error.starts_with(prefix(id)); });
    std::vector<bool> broken(static_cast<size_t>(part_.size()), named == nodes_.end());
    for (size_t i = 0; i < broken.size(); ++i) {
      const auto is_broken = [&](NodeId id) -> bool { return broken[at(id)]; };
      const Node& node = part_.nodes()[i];
      if (std::ranges::any_of(node.operands, is_broken)) broken[i] = true;
      if (named != nodes_.end() && copy(*named).index == static_cast<int32_t>(i))
        broken[i] = true;
    }
    const bool known = named != nodes_.end();
    const std::string text = known ? error.substr(prefix(*named).size()) : error;
    for (NodeId id : weights) {
      if (!broken[at(copy(id))]) continue;
      const bool other = known && *named != id;
      visit(id, {.fault = other ? graph_.describe(*named) + ": " + text : text});
    }
  }

  const Graph& graph_;
  std::span<const NodeId> nodes_;
  NodeMap<NodeId>& copies_;
  Graph part_;
};

}  // namespace

void visit_weights(const Graph& graph, const Parameters& parameters,
                   std::span<const NodeId> ids,
                   const std::function<void(NodeId, const WeightView&)>& visit) {
  std::vector<bool> wanted(static_cast<size_t>(graph.size()));
  for (NodeId id : ids) wanted[at(id)] = true;
  NodeMap<NodeId> copies(graph);
  for (const std::vector<NodeId>& nodes : parts_of(graph, needed_for(graph, ids))) {
    std::vector<NodeId> weights;
    std::ranges::copy_if(nodes, std::back_inserter(weights),
                         [&](NodeId id) -> bool { return wanted[at(id)]; });
    Part(graph, nodes, copies).run(parameters, weights, visit);
  }
}

ComputedBiases visit_constants(const Graph& graph, const Parameters& parameters,
                               const IntegerAnalysis& analysis, const std::vector<bool>& needed,
                               std::set<NodeId> weights,
                               const std::function<void(NodeId, const WeightView&)>& visit) {
  ComputedBiases biases;
  for (const NodeId id : ids(graph)) {
    const NodeId bias = analysis[id].bias;
    if (!needed[at(id)] || bias.index < 0 || graph[bias].operands.empty()) continue;
    biases[bias] = {};
    weights.insert(bias);
  }
  const std::vector<NodeId> all(weights.begin(), weights.end());
  visit_weights(graph, parameters, all, [&](NodeId id, const WeightView& view) {
    if (const auto bias = biases.find(id); bias != biases.end()) {
      bias->second = {{view.values.begin(), view.values.end()},
                      check_bias(view.values, view.fault)};
    }
    visit(id, view);
  });
  return biases;
}

std::vector<int8_t> in_rows(std::span<const int8_t> codes, const WeightLayout& layout) {
  if (layout.rows) return {codes.begin(), codes.end()};
  std::vector<int8_t> turned(codes.size());
  for (int64_t c = 0; c < layout.outputs; ++c) {
    for (int64_t i = 0; i < layout.terms; ++i) {
      turned[static_cast<size_t>(c * layout.terms + i)] =
          codes[static_cast<size_t>(layout.at(c, i))];
    }
  }
  return turned;
}

std::vector<float> bias_values(const Graph& graph, const Parameters& parameters,
                               const ComputedBiases& computed, NodeId bias) {
  const auto found = computed.find(bias);
  return found != computed.end() ? found->second.values : leaf_values(graph, parameters, bias);
}

}  // namespace qtape
