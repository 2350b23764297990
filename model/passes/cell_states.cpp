#include "qtape/model/passes/cell_states.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

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

/// Finds cell states, with quantizers after them and their products if `quantized`.
class CellSearch {
 public:
  CellSearch(const Graph& graph, bool quantized) : graph_(graph), quantized_(quantized) {
    for (const NodeId id : ids(graph)) {
      if (std::holds_alternative<Tanh>(graph[id].op))
        limited_.insert(value(graph[id].operands[0]));
    }
  }

  Cells run() {
    for (const NodeId id : ids(graph_)) {
      if (!std::holds_alternative<Add>(graph_[id].op)) continue;
      const NodeId products[] = {value(graph_[id].operands[0]), value(graph_[id].operands[1])};
      if (!is_product(products[0]) || !is_product(products[1])) continue;
      if (limited_.contains(id) || has_state(products[0]) || has_state(products[1])) {
        add(id, products);
      }
    }
    return std::move(cells_);
  }
  bool is_limited(NodeId id) const { return limited_.contains(id); }

 private:
  NodeId value(NodeId id) const {
    while (quantized_ && is_quantizer(graph_[id].op)) id = graph_[id].operands[0];
    return id;
  }
  bool is_product(NodeId id) const { return std::holds_alternative<Mul>(graph_[id].op); }
  bool has_state(NodeId product) const {
    return std::ranges::any_of(graph_[product].operands, [&](NodeId factor) {
      return cells_.states.contains(value(factor));
    });
  }
  void add(NodeId state, std::span<const NodeId> products) {
    cells_.states.insert(state);
    for (const NodeId product : products) {
      cells_.products.insert(product);
      // The first state of a layer that starts from zeros is a single product.
      for (const NodeId factor : graph_[product].operands) {
        if (is_product(factor) && limited_.contains(factor)) cells_.states.insert(factor);
      }
    }
  }

  const Graph& graph_;
  bool quantized_;
  std::set<NodeId> limited_;  // operands of functions
  Cells cells_;
};

}  // namespace

bool has_cell_states(const Graph& graph) {
  return !CellSearch(graph, true).run().states.empty();
}

Graph quantize_cell_states(const Graph& graph, const Op& wide, const Op& narrow) {
  check(is_quantizer(wide) && is_quantizer(narrow), "expected quantizers, got {} and {}",
        name_of(wide), name_of(narrow));
  CellSearch search(graph, false);
  const Cells cells = search.run();
  check(!cells.states.empty(),
        "cell bits: no cell state of an LSTM layer is without a quantizer");
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
    std::string label = label_near(graph, id);
    if (!label.ends_with(".cell")) label += ".cell";
    const NodeId codes = add_quantizer(result, copy, wide, unused_label(label, taken, ""));
    if (is_state && search.is_limited(id)) {
      narrowed[id] =
          add_quantizer(result, codes, narrow, unused_label(label + ".operand", taken, ""));
    }
    return codes;
  });
  return result;
}

}  // namespace qtape
