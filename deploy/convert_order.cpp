#include "qtape/deploy/convert_order.h"

#include <algorithm>

namespace qtape {
namespace {

class Walk {
 public:
  Walk(const Graph& graph, const IntegerAnalysis& analysis, int max_depth)
      : graph_(graph),
        analysis_(analysis),
        max_depth_(max_depth),
        depths_(static_cast<size_t>(graph.size()), unknown) {}

  /// Visits `source` after all sources from which it is computed.
  void run(NodeId source) {
    open(source);
    while (!open_.empty()) {
      if (open_.back().next < open_.back().parts.size()) {
        open(open_.back().parts[open_.back().next++]);
      } else {
        close();
      }
    }
  }

  std::vector<NodeId> take() { return std::move(early_); }

 private:
  static constexpr int unknown = -1;

  struct Visit {
    NodeId source;
    std::vector<NodeId> parts;
    size_t next = 0;
  };

  int& depth(NodeId id) { return depths_[static_cast<size_t>(id.index)]; }

  void open(NodeId source) {
    if (depth(source) != unknown) return;
    depth(source) = 0;
    open_.push_back({source, parts_of(source)});
  }

  void close() {
    const auto& [source, parts, next] = open_.back();
    int deepest = 0;
    for (NodeId part : parts) deepest = std::max(deepest, depth(part));
    depth(source) = deepest + 1;
    if (depth(source) >= max_depth_) {
      early_.push_back(source);
      depth(source) = 0;
    }
    open_.pop_back();
  }

  /// Returns the sources from which `source` is computed.
  std::vector<NodeId> parts_of(NodeId source) const {
    const NodeId product = analysis_[source].product;
    const Node& node = graph_[product.index >= 0 ? product : source];
    const IntegerForm& x = analysis_[node.operands[0]];
    std::vector<NodeId> parts;
    if (x.is_integer()) add(x, parts);
    return parts;
  }

  void add(const IntegerForm& x, std::vector<NodeId>& parts) const {
    if (x.kind != IntegerKind::Pending) return parts.push_back(x.source);
    for (NodeId operand : graph_[x.source].operands) add(analysis_[operand], parts);
  }

  const Graph& graph_;
  const IntegerAnalysis& analysis_;
  int max_depth_;
  std::vector<int> depths_;  // distance to the next early source
  std::vector<Visit> open_;
  std::vector<NodeId> early_;
};

}  // namespace

std::vector<NodeId> early_sources(const Graph& graph, const IntegerAnalysis& analysis,
                                  std::span<const NodeId> outputs, int max_depth) {
  Walk walk(graph, analysis, max_depth);
  for (NodeId id : outputs) walk.run(analysis[id].source);
  return walk.take();
}

}  // namespace qtape
