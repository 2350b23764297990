#include "qtape/model/passes/training_norms.h"

#include <algorithm>
#include <map>

#include "qtape/core/float_environment.h"
#include "qtape/engine/labels.h"
#include "qtape/engine/rewrite.h"
#include "qtape/integer/rules/rule_table.h"
#include "qtape/model/passes/channel_products.h"
#include "qtape/model/passes/folded_norm.h"
#include "qtape/model/passes/norm_folds.h"

namespace qtape {
namespace {

class Replacement {
 public:
  Replacement(const Graph& graph, const Parameters& parameters)
      : graph_(graph),
        parameters_(parameters),
        readers_(static_cast<size_t>(graph.size())),
        skipped_(readers_.size()),
        copies_(graph) {
    for (const Node& node : graph.nodes()) {
      for (const NodeId x : node.operands) ++readers_[at(x)];
    }
    for (const NodeId id : graph.outputs()) ++readers_[at(id)];
    for (NormFold& each : norm_folds(graph)) {
      if (!is_replaced(each)) continue;
      skipped_[at(each.product)] = true;
      for (const NodeId id : each.between) skipped_[at(id)] = true;
      if (each.bias.index >= 0) skipped_[at(each.bias)] = true;
      folds_.emplace(each.norm, std::move(each));
    }
  }

  TrainingNorms run() {
    if (folds_.empty()) return {};
    TrainingNorms result;
    Graph made;
    (void)rewrite(graph_, made, [&](NodeId id, std::span<const NodeId> operands) {
      if (skipped_[at(id)]) return NodeId{};
      const auto fold = folds_.find(id);
      copies_[id] = fold == folds_.end() ? made.add(graph_[id].op, operands, graph_[id].label)
                                         : add_layer(made, fold->second);
      return copies_[id];
    });
    Parameters values(made, 0);
    for (const ParameterEntry& each : values.entries()) {
      values.set(each.name, parameters_.get(each.name));
    }
    for (const auto& [norm, fold] : folds_) {
      move_bias(fold, values);
      result.folded.push_back(name_near(graph_, norm));
    }
    result.model = SavedModel{std::move(made), std::move(values), {}};
    return result;
  }

 private:
  bool is_replaced(const NormFold& fold) const {
    if (!fold.reason.empty() || fold.quantized) return false;
    if (!weights_operand(graph_[fold.product].op)) return false;
    const Shape& shape = graph_[fold.weight].type.shape;
    if (shape[fold.layout.axis] != fold.layout.outputs) return false;
    const std::vector<NodeId>& norm = graph_[fold.norm].operands;
    // A layer with a factor of 0 would not learn.
    const ParameterEntry* gamma = parameters_.find(graph_[norm[1]].label);
    if (gamma == nullptr || has_zero(*gamma)) return false;
    const bool states = std::all_of(norm.begin() + 3, norm.end(), [&](NodeId id) {
      return std::holds_alternative<State>(graph_[id].op);
    });
    // A bias goes into the running mean.
    const bool own_bias =
        fold.bias.index < 0 || (std::holds_alternative<Parameter>(graph_[fold.bias].op) &&
                                readers_[at(fold.bias)] == 1 && readers_[at(norm[3])] == 1);
    return states && own_bias;
  }

  static bool has_zero(const ParameterEntry& entry) {
    return dispatch_compute(entry.type.dtype, [&]<class T>() {
      return std::ranges::count(entry.values<T>(), T(0)) > 0;
    });
  }

  NodeId add_layer(Graph& made, const NormFold& fold) {
    const Node& norm = graph_[fold.norm];
    FoldedNorm folded(made, std::get<BatchNorm>(norm.op),
                      {.gamma = copies_[norm.operands[1]],
                       .beta = copies_[norm.operands[2]],
                       .mean = copies_[norm.operands[3]],
                       .variance = copies_[norm.operands[4]]});
    const NodeId weight = folded.weight(copies_[fold.weight], fold.layout.axis);
    const Node& product = graph_[fold.product];
    std::vector<NodeId> operands;
    for (const NodeId x : product.operands) {
      operands.push_back(x == fold.weight ? weight : copies_[x]);
    }
    const NodeId sums = made.add(product.op, operands, product.label);
    const NodeId bias = folded.bias();
    const NodeId v = made.add(AddBias{}, {sums, bias});
    std::vector<NodeId> views;
    for (const NodeId id : fold.between) {
      if (!adds_bias(graph_[id].op)) views.insert(views.begin(), id);
    }
    NodeId y = folded.correct(v, bias, views.empty() ? norm.label : "");
    for (const NodeId id : views) {
      y = made.add(graph_[id].op, {y}, id == views.back() ? norm.label : graph_[id].label);
    }
    return y;
  }

  /// Subtracts the bias of a layer from the running mean: beta + (bias - mean) r is what
  /// FoldBias then computes.
  void move_bias(const NormFold& fold, Parameters& values) const {
    if (fold.bias.index < 0) return;
    const std::string& mean = graph_[graph_[fold.norm].operands[3]].label;
    const ParameterEntry& bias = parameters_.at(graph_[fold.bias].label);
    const ParameterEntry& before = parameters_.at(mean);
    dispatch_compute(before.type.dtype, [&]<class T>() {
      std::vector<T> moved;
      const std::span<const T> shift = bias.values<T>();
      for (const T each : before.values<T>()) moved.push_back(each - shift[moved.size()]);
      values.set(mean, Tensor::of<T>(before.type.shape, std::span<const T>(moved)));
    });
  }

  const Graph& graph_;
  const Parameters& parameters_;
  std::vector<int> readers_;
  std::vector<bool> skipped_;
  NodeMap<NodeId> copies_;
  std::map<NodeId, NormFold> folds_;
};

}  // namespace

TrainingNorms with_training_norms(const Graph& graph, const Parameters& parameters) {
  const FloatEnvironment floats;
  const std::optional<SavedModel> products = norm_products(graph, parameters);
  return products ? Replacement(products->graph, products->parameters).run()
                  : Replacement(graph, parameters).run();
}

}  // namespace qtape
