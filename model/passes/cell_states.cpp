#include "qtape/model/passes/cell_states.h"

#include <map>
#include <set>

#include "qtape/engine/constants.h"
#include "qtape/engine/labels.h"
#include "qtape/engine/quantizers.h"
#include "qtape/engine/rewrite.h"
#include "qtape/integer/rules/quantizer_of.h"

namespace qtape {
namespace {

/// Nodes whose values get wide codes.
struct Cells {
  std::set<NodeId> states;
  std::set<NodeId> products;
};

bool is_product(const Graph& graph, NodeId id) {
  return std::holds_alternative<Mul>(graph[id].op);
}

Cells find_cells(const Graph& graph) {
  std::set<NodeId> limited;  // operands of functions
  for (const NodeId id : ids(graph)) {
    if (std::holds_alternative<Tanh>(graph[id].op)) limited.insert(graph[id].operands[0]);
  }
  Cells cells;
  for (const NodeId state : limited) {
    const Node& sum = graph[state];
    if (!std::holds_alternative<Add>(sum.op)) continue;
    if (!is_product(graph, sum.operands[0]) || !is_product(graph, sum.operands[1])) continue;
    cells.states.insert(state);
    for (const NodeId product : sum.operands) {
      cells.products.insert(product);
      // The first state of a layer that starts from zeros is a single product.
      for (const NodeId factor : graph[product].operands) {
        if (is_product(graph, factor) && limited.contains(factor)) cells.states.insert(factor);
      }
    }
  }
  return cells;
}

}  // namespace

Graph quantize_cell_states(const Graph& graph, const Op& wide, const Op& narrow) {
  check(is_quantizer(wide) && is_quantizer(narrow), "expected quantizers, got {} and {}",
        name_of(wide), name_of(narrow));
  const Cells cells = find_cells(graph);
  check(!cells.states.empty(), "cell bits: the graph has no cell states of LSTM layers");
  Graph result;
  const auto taken = [&](const std::string& label) {
    return graph.find(label + ".quantized") || result.find(label + ".quantized");
  };
  std::map<NodeId, NodeId> narrowed;  // by node of `graph`
  rewrite(graph, result, [&](NodeId id, std::vector<NodeId> operands) {
    const Node& node = graph[id];
    if (std::holds_alternative<Tanh>(node.op)) {
      const auto state = narrowed.find(node.operands[0]);
      if (state != narrowed.end()) operands[0] = state->second;
    }
    const NodeId copy = result.add(node.op, operands, node.label);
    const bool is_state = cells.states.contains(id);
    if (!is_state && !cells.products.contains(id)) return copy;
    const std::string label = label_near(graph, id);
    const NodeId codes =
        add_quantizer(result, copy, wide, unused_label(label + ".cell", taken, ""));
    if (is_state) {
      narrowed[id] =
          add_quantizer(result, codes, narrow, unused_label(label + ".operand", taken, ""));
    }
    return codes;
  });
  return result;
}

}  // namespace qtape
