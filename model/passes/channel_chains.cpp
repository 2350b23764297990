#include "qtape/model/passes/channel_chains.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "qtape/engine/constants.h"
#include "qtape/engine/tape.h"
#include "qtape/integer/rules/rule_table.h"

namespace qtape {
namespace {

/// A node that scales and shifts channels, without its numbers.
struct Step {
  NodeId x;
  std::vector<NodeId> constants = {};
};

/// True for a shape that broadcasts to `x` with one number or one for each channel.
bool is_per_channel(const Shape& constant, const Shape& x) {
  if (constant.rank() > x.rank()) return false;
  for (int k = 0; k < constant.rank(); ++k) {
    const bool last = k + 1 == constant.rank();
    if (constant[k] != 1 && !(last && constant[k] == x[-1])) return false;
  }
  return true;
}

class ChainFinder {
 public:
  ChainFinder(const Graph& graph, const Parameters& parameters)
      : graph_(graph),
        constant_(constant_nodes(graph)),
        answered_(needed_for(graph, graph.answers())),
        readers_(constant_.size()) {
    for (const Node& node : graph.nodes()) {
      for (NodeId x : node.operands) ++readers_[at(x)];
    }
    for (NodeId id : graph.outputs()) ++readers_[at(id)];
    for (const NodeId id : ids(graph)) {
      if (std::optional<Step> step = step_of(id)) steps_.emplace(id, std::move(*step));
    }
    evaluate(parameters);
  }

  std::vector<ChannelChain> run() const {
    std::set<NodeId> used;
    std::vector<ChannelChain> found;
    for (const auto& [id, step] : steps_) {
      if (used.contains(id)) continue;
      ChannelChain chain{.nodes = {id}, .x = step.x};
      for (auto next = follower(id); next; next = follower(*next)) chain.nodes.push_back(*next);
      used.insert(chain.nodes.begin(), chain.nodes.end());
      chain.is_trained = std::ranges::any_of(chain.nodes, [&](NodeId node) {
        return std::ranges::any_of(steps_.at(node).constants, [&](NodeId x) {
          return std::holds_alternative<Parameter>(graph_[x].op);
        });
      });
      compute(chain);
      found.push_back(std::move(chain));
    }
    return found;
  }

 private:
  const Shape& shape(NodeId id) const { return graph_[id].type.shape; }

  std::optional<Step> step_of(NodeId id) const {
    const Node& node = graph_[id];
    if (constant_[at(id)] || !answered_[at(id)] || node.type.dtype != DType::F32 ||
        node.type.shape.rank() < 2) {
      return std::nullopt;
    }
    const bool sum = is_any<Add, Sub>(node.op);
    const bool product = is_any<Mul, Div>(node.op);
    if (sum || product) return pair(node);
    if (std::holds_alternative<Affine>(node.op)) return Step{node.operands[0]};
    const bool bias = std::holds_alternative<AddBias>(node.op);
    if (bias && is_product(node.operands[0])) return std::nullopt;
    if (!bias && !std::holds_alternative<BatchNorm>(node.op)) return std::nullopt;
    Step step{.x = node.operands[0], .constants = {}};
    step.constants.assign(node.operands.begin() + 1, node.operands.end());
    const bool known = std::ranges::all_of(
        step.constants, [&](NodeId x) -> bool { return constant_[at(x)] && is_own(x); });
    return known ? std::optional(std::move(step)) : std::nullopt;
  }

  /// Returns the step of an elementwise node of which one operand is constant.
  std::optional<Step> pair(const Node& node) const {
    for (const size_t k : {size_t{0}, size_t{1}}) {
      const NodeId x = node.operands[k], c = node.operands[1 - k];
      const bool divided = std::holds_alternative<Div>(node.op) && k == 1;
      if (constant_[at(x)] || !constant_[at(c)] || divided || !is_own(c)) continue;
      if (shape(x) == node.type.shape && is_per_channel(shape(c), shape(x)))
        return Step{x, {c}};
    }
    return std::nullopt;
  }

  /// True unless training changes the constant and other nodes read it as well.
  bool is_own(NodeId id) const {
    return readers_[at(id)] == 1 || !std::holds_alternative<Parameter>(graph_[id].op);
  }

  /// True for a product with constant weights, or a view of one.
  bool is_product(NodeId id) const {
    const Node& node = graph_[origin_of(graph_, id)];
    const bool transposed = std::holds_alternative<ConvTranspose2d>(node.op);
    const std::optional<size_t> weights = transposed ? 1 : weights_operand(node.op);
    return weights && constant_[at(node.operands[*weights])];
  }

  /// Returns the step that is the only reader of `id`.
  std::optional<NodeId> follower(NodeId id) const {
    if (readers_[at(id)] != 1) return std::nullopt;
    const auto next = std::find_if(steps_.upper_bound(id), steps_.end(),
                                   [&](const auto& each) { return each.second.x == id; });
    return next != steps_.end() ? std::optional(next->first) : std::nullopt;
  }

  void evaluate(const Parameters& parameters) {
    TapeOptions options{.threads = 1};
    std::set<NodeId> wanted;
    for (const auto& [id, step] : steps_) {
      wanted.insert(step.constants.begin(), step.constants.end());
    }
    if (wanted.empty()) return;
    options.outputs.assign(wanted.begin(), wanted.end());
    tape_ = std::make_unique<Tape>(graph_, parameters, std::move(options));
    tape_->forward(mode::eval);
  }

  /// Returns a number of a constant for each channel.
  std::vector<double> numbers(NodeId id, size_t channels) const {
    const std::span<const float> values = tape_->value<float>(id);
    std::vector<double> result(channels);
    for (size_t c = 0; c < channels; ++c) {
      result[c] = double{values[values.size() == 1 ? 0 : c]};
    }
    return result;
  }

  void compute(ChannelChain& chain) const {
    const auto channels = static_cast<size_t>(shape(chain.x)[-1]);
    chain.factor.assign(channels, 1);
    chain.offset.assign(channels, 0);
    for (const NodeId id : chain.nodes) apply(id, chain);
  }

  void apply(NodeId id, ChannelChain& chain) const {
    const Node& node = graph_[id];
    const Step& step = steps_.at(id);
    const size_t channels = chain.factor.size();
    std::vector<std::vector<double>> of;
    for (NodeId each : step.constants) of.push_back(numbers(each, channels));
    for (size_t c = 0; c < channels; ++c) {
      double factor = 1, offset = 0;
      if (const auto* affine = std::get_if<Affine>(&node.op)) {
        factor = affine->factor;
        offset = affine->offset;
      } else if (const auto* norm = std::get_if<BatchNorm>(&node.op)) {
        factor = of[0][c] / std::sqrt(of[3][c] + norm->eps);
        offset = of[1][c] - of[2][c] * factor;
      } else if (std::holds_alternative<Mul>(node.op)) {
        factor = of[0][c];
      } else if (std::holds_alternative<Div>(node.op)) {
        factor = 1 / of[0][c];
      } else {
        const bool sub = std::holds_alternative<Sub>(node.op);
        const bool negated = sub && node.operands[1] == step.x;
        factor = negated ? -1 : 1;
        offset = sub && !negated ? -of[0][c] : of[0][c];
      }
      chain.factor[c] *= factor;
      chain.offset[c] = chain.offset[c] * factor + offset;
    }
  }

  const Graph& graph_;
  std::vector<bool> constant_;
  std::vector<bool> answered_;  // an answer depends on it
  std::vector<int64_t> readers_;
  std::map<NodeId, Step> steps_;
  std::unique_ptr<Tape> tape_;
};

}  // namespace

bool ChannelChain::is_uniform() const {
  const auto equal = [](const std::vector<double>& numbers) {
    return std::ranges::all_of(numbers, [&](double each) { return each == numbers[0]; });
  };
  return equal(factor) && equal(offset);
}

std::vector<ChannelChain> channel_chains(const Graph& graph, const Parameters& parameters) {
  return ChainFinder(graph, parameters).run();
}

}  // namespace qtape
