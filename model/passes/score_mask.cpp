#include "qtape/model/passes/score_mask.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

#include "qtape/engine/constants.h"
#include "qtape/engine/labels.h"
#include "qtape/engine/quantizers.h"
#include "qtape/integer/rules/analysis.h"
#include "qtape/model/passes/last_softmax.h"

namespace qtape {
namespace {

int64_t product(std::span<const int64_t> extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
}

/// Calls f(first, step, n) for each row along the axis: its elements are first + k * step.
template <class F>
void for_each_row(const ScoreMask& mask, const F& f) {
  const std::span<const int64_t> extents = mask.extents;
  const auto axis = static_cast<size_t>(mask.axis + std::ssize(extents));
  const int64_t n = extents[axis];
  const int64_t step = product(extents.subspan(axis + 1));
  for (int64_t outer = 0; outer < product(extents.first(axis)); ++outer) {
    for (int64_t inner = 0; inner < step; ++inner) f(outer * n * step + inner, step, n);
  }
}

/// Returns the index of the operand of an Add that is a leaf, if one of the two is.
std::optional<size_t> leaf_operand(const Graph& graph, NodeId sum) {
  const auto is_leaf = [&](size_t k) {
    return is_any<Constant, Parameter, State>(graph[graph[sum].operands[k]].op);
  };
  if (is_leaf(0) == is_leaf(1)) return std::nullopt;
  return is_leaf(0) ? 0 : 1;
}

/// Returns the Add that gives the scores of a Softmax, with the views between them and the axis
/// counted from the last one.
std::optional<ScoreMask> sum_before(const Graph& graph, NodeId softmax) {
  const Node& node = graph[softmax];
  const Shape& shape = node.type.shape;
  const int axis = resolve_axis(std::get<Softmax>(node.op).axis, shape) - shape.rank();
  ScoreMask found{.sum = node.operands[0], .axis = axis};
  // Other views could exchange the elements of rows.
  while (std::holds_alternative<Reshape>(graph[found.sum].op) && axis == -1) {
    const NodeId before = graph[found.sum].operands[0];
    if (graph[before].type.shape[-1] != shape[-1]) break;
    found.views.insert(found.views.begin(), std::exchange(found.sum, before));
  }
  const Node& sum = graph[found.sum];
  if (!std::holds_alternative<Add>(sum.op) || sum.type.dtype != DType::F32) return std::nullopt;
  if (!leaf_operand(graph, found.sum) || sum.type.shape.rank() + axis < 1) return std::nullopt;
  found.scores = 1 - *leaf_operand(graph, found.sum);
  return found;
}

/// Returns the values of a leaf of shape `from` for each element of the last axes `extents`.
std::vector<float> spread(const std::vector<float>& values, const Shape& from,
                          std::span<const int64_t> extents) {
  std::vector<float> result(static_cast<size_t>(product(extents)));
  for (size_t i = 0; i < result.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    int64_t place = 0;
    int64_t step = 1;
    for (int k = 1; k <= from.rank() && k <= std::ssize(extents); ++k) {
      const int64_t extent = extents[extents.size() - static_cast<size_t>(k)];
      if (from[-k] > 1) place += rest % extent * step;
      step *= from[-k];
      rest /= extent;
    }
    result[i] = values[static_cast<size_t>(place)];
  }
  return result;
}

/// A mask, or the reason why it is none.
struct MaskSearch {
  ScoreMask mask = {};
  std::string reason = {};
};

MaskSearch with_values(const Graph& graph, ScoreMask mask, const std::vector<float>& values) {
  const Shape& shape = graph[mask.sum].type.shape;
  const Node& sum = graph[mask.sum];
  const Shape& from = graph[sum.operands[1 - mask.scores]].type.shape;
  const std::optional<float> bound = mask_bound(values);
  if (!bound) {
    return {{}, "a mask has biases within -1,000 and 1,000 beside values of at most -10,000"};
  }
  if (graph[sum.operands[mask.scores]].type.shape != shape) {
    return {{}, "it has more elements than the scores that it is added to"};
  }
  int first = shape.rank() + mask.axis;
  for (int axis = shape.rank() - from.rank(); axis < first; ++axis) {
    if (from[axis - shape.rank()] > 1) first = axis;
  }
  if (first == 0) return {{}, "it differs between samples"};
  mask.extents.assign(shape.extents().begin() + first, shape.extents().end());
  const std::vector<float> all = spread(values, from, mask.extents);
  for (const float each : all) {
    mask.counts.push_back(each > *bound);
    mask.biases.push_back(each > *bound ? each : 0);
  }
  if (std::ranges::all_of(mask.biases, [](float each) { return each == 0; })) {
    mask.biases.clear();
  }
  bool full = true;
  for_each_row(mask, [&](int64_t begin, int64_t step, int64_t n) {
    bool any = false;
    for (int64_t k = 0; k < n; ++k) any = any || mask.counts[size_t(begin + k * step)];
    full = full && any;
  });
  if (!full) return {{}, "it leaves out all elements of a row"};
  return {std::move(mask), {}};
}

MaskSearch search(const Graph& graph, const Parameters& parameters, NodeId softmax) {
  std::optional<ScoreMask> mask = sum_before(graph, softmax);
  if (!mask) return {{}, "nothing is added"};
  const NodeId leaf = graph[mask->sum].operands[1 - mask->scores];
  return with_values(graph, *std::move(mask), leaf_values(graph, parameters, leaf));
}

/// Search for leaves whose values have no codes.
class Refusals {
 public:
  Refusals(const Graph& graph, const Parameters& parameters)
      : graph_(graph),
        parameters_(parameters),
        needed_(needed_for(graph, graph.answers())),
        last_(last_softmaxes(graph)) {}

  std::vector<Finding> run() const {
    std::vector<Finding> found;
    for (const NodeId id : ids(graph_)) {
      const Node& node = graph_[id];
      if (!needed_[at(id)] || !is_any<Constant, Parameter, State>(node.op)) continue;
      if (node.type.dtype != DType::F32) continue;
      const std::vector<float> values = leaf_values(graph_, parameters_, id);
      const bool infinite =
          std::ranges::any_of(values, [](float each) { return std::isinf(each); });
      if (!infinite && !mask_bound(values)) continue;
      const std::string reason = refusal(id, infinite);
      if (!reason.empty()) found.push_back(finding(id, infinite, reason));
    }
    return found;
  }

 private:
  Finding finding(NodeId leaf, bool infinite, const std::string& reason) const {
    return {.severity = Severity::Error,
            .node = name_near(graph_, leaf),
            .what = (infinite ? "infinite values have no codes: " : "no mask in integers: ") +
                    reason,
            .remedy =
                "masks have integers where they are added to the operand of a Softmax, "
                "are the same for all samples and leave an element in each row"};
  }

  /// Returns why a reader has no integers for the leaf; empty if all have.
  std::string refusal(NodeId leaf, bool infinite) const {
    return of_readers(leaf, [&](NodeId id) -> std::string {
      if (std::holds_alternative<Add>(graph_[id].op) && leaf_operand(graph_, id)) {
        return of_sum(id, infinite);
      }
      return infinite ? "it is an operand of " + name_near(graph_, id) : "";
    });
  }

  /// Does the same for the sum of the leaf and other values.
  std::string of_sum(NodeId sum, bool infinite) const {
    const auto answers = graph_.answers();
    if (infinite && std::ranges::find(answers, sum) != answers.end()) {
      return name_near(graph_, sum) + " is an answer";
    }
    return of_readers(sum, [&](NodeId id) -> std::string {
      const Op& op = graph_[id].op;
      if (std::holds_alternative<Reshape>(op)) return of_sum(id, infinite);
      if (std::holds_alternative<Softmax>(op) && std::ranges::find(last_, id) == last_.end()) {
        return search(graph_, parameters_, id).reason;
      }
      return infinite ? "its sum is an operand of " + name_near(graph_, id) : "";
    });
  }

  /// Returns the first reason that a reader of a value gives.
  template <class F>
  std::string of_readers(NodeId value, const F& reason_of) const {
    for (const NodeId id : ids(graph_)) {
      const std::vector<NodeId>& operands = graph_[id].operands;
      if (!needed_[at(id)] || std::ranges::find(operands, value) == operands.end()) continue;
      std::string reason = reason_of(id);
      if (!reason.empty()) return reason;
    }
    return {};
  }

  const Graph& graph_;
  const Parameters& parameters_;
  std::vector<bool> needed_;
  std::vector<NodeId> last_;
};

}  // namespace

std::vector<int64_t> ScoreMask::counted_places() const {
  std::vector<int64_t> places(counts.size());
  for_each_row(*this, [&](int64_t begin, int64_t step, int64_t n) {
    int64_t last = begin;
    while (!counts[static_cast<size_t>(last)]) last += step;
    for (int64_t place = begin; place < begin + n * step; place += step) {
      if (counts[static_cast<size_t>(place)]) last = place;
      places[static_cast<size_t>(place)] = last;
    }
  });
  return places;
}

Tensor ScoreMask::factors() const {
  const std::vector<float> values(counts.begin(), counts.end());
  return Tensor::of<float>(Shape(extents), values);
}

Tensor ScoreMask::counted_biases() const {
  std::vector<float> values;
  for (const int64_t place : counted_places()) {
    values.push_back(biases[static_cast<size_t>(place)]);
  }
  return Tensor::of<float>(Shape(extents), values);
}

std::optional<ScoreMask> score_mask(const Graph& graph, const Parameters& parameters,
                                    NodeId softmax) {
  MaskSearch found = search(graph, parameters, softmax);
  if (!found.reason.empty()) return std::nullopt;
  return std::move(found.mask);
}

std::vector<Finding> values_without_codes(const Graph& graph, const Parameters& parameters) {
  if (!quantizers(graph).empty()) return {};
  return Refusals(graph, parameters).run();
}

}  // namespace qtape
