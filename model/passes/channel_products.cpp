#include "qtape/model/passes/channel_products.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "qtape/engine/constants.h"
#include "qtape/engine/labels.h"
#include "qtape/engine/quantizers.h"
#include "qtape/engine/rewrite.h"
#include "qtape/integer/rules/rule_table.h"
#include "qtape/model/passes/channel_chains.h"
#include "qtape/model/passes/float_parts.h"
#include "qtape/model/passes/norm_folds.h"

namespace qtape {
namespace {

/// A graph that is built with values of its own for some leaves.
class ValueBuilder {
 public:
  explicit ValueBuilder(const Graph& from) : from_(from) {}

  Graph graph;

  NodeId add(Op op, const std::vector<NodeId>& operands, std::string label = {}) {
    return graph.add(std::move(op), operands, std::move(label));
  }
  /// Returns a label that neither graph has.
  std::string free_label(const std::string& label) const {
    return unused_label(
        label, [&](const std::string& each) { return from_.find(each) || graph.find(each); });
  }
  template <class Leaf>
  NodeId leaf(const std::string& label, const Shape& shape,
              const std::vector<double>& numbers) {
    const std::vector<float> values(numbers.begin(), numbers.end());
    const std::string own = free_label(label);
    values_[own] = Tensor::of<float>(shape, std::span(values));
    return add(Leaf{.shape = shape}, {}, own);
  }
  SavedModel finish(const Parameters& before) {
    Parameters made(graph, 0);
    for (const ParameterEntry& entry : made.entries()) {
      const auto own = values_.find(entry.name);
      if (own != values_.end()) {
        made.set(entry.name, own->second);
      } else if (before.find(entry.name) != nullptr) {
        made.set(entry.name, before.get(entry.name));
      }
    }
    return {std::move(graph), std::move(made), {}};
  }

 private:
  const Graph& from_;
  std::map<std::string, Tensor> values_;
};

/// True if the node is a product with constant weights, or a sum of one with a bias, and has
/// one reader.
bool is_layer(const Graph& graph, NodeId id) {
  const auto reads = [&](const Node& node) { return std::ranges::count(node.operands, id); };
  int64_t readers = std::ranges::count(graph.outputs(), id);
  for (const Node& node : graph.nodes()) readers += reads(node);
  if (readers != 1) return false;
  if (adds_bias(graph[id].op)) id = graph[id].operands[0];
  return std::holds_alternative<ConvTranspose2d>(graph[id].op) ||
         constant_weights(graph, constant_nodes(graph), id);
}

/// Replaces chains by norms.
class ChainNorms {
 public:
  ChainNorms(const Graph& graph, const Parameters& parameters)
      : graph_(graph), parameters_(parameters), made_(graph) {
    const std::vector<bool> replaceable = replaceable_nodes(graph);
    for (ChannelChain& chain : channel_chains(graph, parameters)) {
      const bool changes = std::ranges::any_of(
          chain.nodes, [&](NodeId id) -> bool { return replaceable[at(id)]; });
      if (changes && !stays(chain)) chains_.emplace(chain.nodes.back(), std::move(chain));
    }
  }

  bool empty() const { return chains_.empty(); }

  SavedModel run() {
    std::set<NodeId> replaced;
    for (const auto& [last, chain] : chains_) {
      replaced.insert(chain.nodes.begin(), chain.nodes.end());
      labels.push_back(name_near(graph_, last));
    }
    std::map<NodeId, NodeId> copies;
    rewrite(graph_, made_.graph, [&](NodeId id, const std::vector<NodeId>& operands) {
      const auto chain = chains_.find(id);
      if (chain != chains_.end()) {
        return copies[id] = norm(chain->second, copies.at(chain->second.x), graph_[id].label);
      }
      if (replaced.contains(id)) return NodeId{};
      return copies[id] = made_.add(graph_[id].op, operands, graph_[id].label);
    });
    return made_.finish(parameters_);
  }

  std::vector<std::string> labels;
  std::set<std::string> gammas;

 private:
  /// True if each node of the chain has integers as it is.
  bool stays(const ChannelChain& chain) const {
    const bool affine = std::ranges::all_of(
        chain.nodes, [&](NodeId id) { return std::holds_alternative<Affine>(graph_[id].op); });
    const bool one_norm =
        chain.nodes.size() == 1 && std::holds_alternative<BatchNorm>(graph_[chain.nodes[0]].op);
    const auto finite = [](const std::vector<double>& numbers) {
      return std::ranges::all_of(
          numbers, [](double each) { return std::isfinite(static_cast<float>(each)); });
    };
    return affine || one_norm || !finite(chain.factor) || !finite(chain.offset);
  }

  NodeId norm(const ChannelChain& chain, NodeId x, const std::string& label) {
    if (chain.is_uniform() && !chain.is_trained && !is_layer(graph_, chain.x)) {
      return made_.add(Affine{.factor = chain.factor[0], .offset = chain.offset[0]}, {x},
                       label);
    }
    const std::string stem = label_near(graph_, chain.nodes.back());
    const Shape shape = {static_cast<int64_t>(chain.factor.size())};
    // running_var + eps must be exactly 1.
    const BatchNorm op{.eps = 0x1p-16};
    const std::vector<double> zeros(chain.factor.size()), ones(chain.factor.size(), 1 - op.eps);
    const NodeId gamma = made_.leaf<Parameter>(stem + ".gamma", shape, chain.factor);
    gammas.insert(made_.graph[gamma].label);
    const NodeId beta = made_.leaf<Parameter>(stem + ".beta", shape, chain.offset);
    const NodeId mean = made_.leaf<State>(stem + ".mean", shape, zeros);
    const NodeId variance = made_.leaf<State>(stem + ".variance", shape, ones);
    return made_.add(op, {x, gamma, beta, mean, variance}, label);
  }

  const Graph& graph_;
  const Parameters& parameters_;
  ValueBuilder made_;
  std::map<NodeId, ChannelChain> chains_;  // by last node
};

/// Gives norms that cannot be folded a product of their own.
class NormProducts {
 public:
  NormProducts(const Graph& graph, const Parameters& parameters)
      : graph_(graph), parameters_(parameters), made_(graph) {
    const std::vector<bool> constant = constant_nodes(graph);
    const std::vector<bool> answered = needed_for(graph, graph.answers());
    const std::vector<bool> replaceable = replaceable_nodes(graph);
    for (const NormFold& each : norm_folds(graph)) {
      const Node& norm = graph[each.norm];
      const bool known = std::all_of(norm.operands.begin() + 1, norm.operands.end(),
                                     [&](NodeId x) -> bool { return constant[at(x)]; });
      // With more axes, the batch might not be the first.
      const bool fits = norm.type.dtype == DType::F32 && norm.type.shape.rank() <= 5 &&
                        norm.type.elements() > 0;
      if (!each.reason.empty() && known && fits && answered[at(each.norm)] &&
          replaceable[at(each.norm)]) {
        norms_.insert(each.norm);
      }
    }
  }

  bool empty() const { return norms_.empty(); }

  SavedModel run() {
    rewrite(graph_, made_.graph, [&](NodeId id, std::vector<NodeId>& operands) {
      if (norms_.contains(id)) operands[0] = product(operands[0], label_near(graph_, id));
      return made_.add(graph_[id].op, operands, graph_[id].label);
    });
    return made_.finish(parameters_);
  }

 private:
  /// Returns x times 1, as a depthwise convolution.
  NodeId product(NodeId x, const std::string& stem) {
    const Shape shape = made_.graph[x].type.shape;
    const int64_t channels = shape[-1];
    const std::vector<double> ones(static_cast<size_t>(channels), 1);
    const std::string label = stem + ".factor";
    if (shape.rank() == 4) {
      const NodeId w = made_.leaf<Parameter>(label, {channels, 1, 1, 1}, ones);
      return made_.add(Conv2d{.groups = channels}, {x, w});
    }
    const NodeId w = made_.leaf<Parameter>(label, {channels, 1, 1}, ones);
    const bool fits = shape.rank() == 3;
    const int64_t rows = shape.elements() / (shape[0] * channels);
    if (!fits) x = made_.add(Reshape{.shape = {-1, rows, channels}}, {x});
    const NodeId y = made_.add(Conv1d{.groups = channels}, {x, w});
    if (fits) return y;
    std::vector<int64_t> back(shape.extents().begin(), shape.extents().end());
    back[0] = -1;
    return made_.add(Reshape{.shape = std::move(back)}, {y});
  }

  const Graph& graph_;
  const Parameters& parameters_;
  ValueBuilder made_;
  std::set<NodeId> norms_;
};

}  // namespace

ChannelProducts channel_products(const Graph& graph, const Parameters& parameters) {
  ChannelProducts result;
  ChainNorms chains(graph, parameters);
  if (!chains.empty()) {
    result.model = chains.run();
    result.chains = std::move(chains.labels);
    result.gammas = std::move(chains.gammas);
  }
  std::optional<SavedModel> products =
      result.model ? norm_products(result.model->graph, result.model->parameters)
                   : norm_products(graph, parameters);
  if (products) result.model = std::move(products);
  return result;
}

std::optional<SavedModel> norm_products(const Graph& graph, const Parameters& parameters) {
  NormProducts products(graph, parameters);
  return products.empty() ? std::nullopt : std::optional(products.run());
}

}  // namespace qtape
