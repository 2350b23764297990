#include "qtape/model/passes/score_path.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "qtape/engine/constants.h"
#include "qtape/engine/quantizers.h"
#include "qtape/integer/rules/analysis.h"

namespace qtape {
namespace {

/// Returns the values of a leaf of shape `from` for each element of the last axes `extents`.
std::vector<float> spread(const std::vector<float>& values, const Shape& from,
                          std::span<const int64_t> extents) {
  std::vector<float> result(static_cast<size_t>(Shape(extents).elements()));
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

}  // namespace

std::optional<size_t> leaf_operand(const Graph& graph, NodeId sum) {
  const auto is_leaf = [&](size_t k) {
    return is_any<Constant, Parameter, State>(graph[graph[sum].operands[k]].op);
  };
  if (!is_any<Add, Sub>(graph[sum].op) || graph[sum].type.dtype != DType::F32) {
    return std::nullopt;
  }
  if (is_leaf(0) == is_leaf(1)) return std::nullopt;
  if (is_leaf(0) && std::holds_alternative<Sub>(graph[sum].op)) return std::nullopt;
  return is_leaf(0) ? 0 : 1;
}

std::vector<float> added_values(const Graph& graph, const Parameters& parameters, NodeId sum,
                                size_t leaf) {
  std::vector<float> values = leaf_values(graph, parameters, graph[sum].operands[leaf]);
  if (std::holds_alternative<Sub>(graph[sum].op)) {
    for (float& each : values) each = -each;
  }
  return values;
}

ScorePath::ScorePath(const Graph& graph, const Parameters& parameters, NodeId softmax)
    : graph_(graph), parameters_(parameters), last_(graph[softmax].operands[0]) {
  const Node& node = graph[softmax];
  const Shape& shape = node.type.shape;
  mask_.axis = resolve_axis(std::get<Softmax>(node.op).axis, shape) - shape.rank();
  // Other views could exchange the elements of rows.
  while (std::holds_alternative<Reshape>(graph_[last_].op) && mask_.axis == -1) {
    const NodeId before = graph_[last_].operands[0];
    if (graph_[before].type.shape[-1] != shape[-1]) break;
    mask_.views.insert(mask_.views.begin(), std::exchange(last_, before));
  }
  while (step()) {
  }
}

std::string ScorePath::finish(ScoreMask& result) {
  if (masks_.empty()) return "there is no mask";
  while (!is_mask(mask_.steps.back().node)) mask_.steps.pop_back();
  std::ranges::reverse(mask_.steps);
  std::string reason = combine();
  if (reason.empty()) result = std::move(mask_);
  return reason;
}

bool ScorePath::is_mask(NodeId sum) const {
  return std::ranges::find(masks_, sum, &Added::sum) != masks_.end();
}

bool ScorePath::contains(NodeId sum) const {
  return std::ranges::find(mask_.steps, sum, &ScoreStep::node) != mask_.steps.end();
}

bool ScorePath::step() {
  const Node& node = graph_[last_];
  ScoreStep next{.node = last_};
  if (const auto* affine = std::get_if<Affine>(&node.op)) {
    if (affine->factor <= 0) return false;
    next.is_kept = true;
    factor_ *= static_cast<float>(affine->factor);
  } else if (const auto* clamp = std::get_if<Clamp>(&node.op)) {
    constexpr double unlimited = 1e30;
    if (clamp->low > -unlimited || clamp->high < unlimited) return false;
  } else if (const auto leaf = leaf_operand(graph_, last_)) {
    next.operand = 1 - *leaf;
    if (graph_[node.operands[next.operand]].type.shape != node.type.shape) return false;
    next.is_kept = !add_mask(*leaf);
  } else {
    return false;
  }
  mask_.steps.push_back(next);
  last_ = node.operands[next.operand];
  return true;
}

bool ScorePath::add_mask(size_t leaf) {
  std::vector<float> values = added_values(graph_, parameters_, last_, leaf);
  const std::optional<float> bound = mask_bound(values);
  const auto counts = [&](float each) {
    return each > *bound || each * factor_ > negligible_score;
  };
  if (!bound || std::ranges::all_of(values, counts)) return false;
  for (float& each : values) each *= factor_;
  const Shape& shape = graph_[graph_[last_].operands[leaf]].type.shape;
  masks_.push_back(
      {last_, shape, std::move(values), std::min(*bound * factor_, negligible_score)});
  return true;
}

std::string ScorePath::combine() {
  const Shape& shape = graph_[masks_[0].sum].type.shape;
  int first = shape.rank() + mask_.axis;
  for (const Added& each : masks_) {
    for (int axis = shape.rank() - each.shape.rank(); axis < first; ++axis) {
      if (each.shape[axis - shape.rank()] > 1) first = axis;
    }
  }
  if (first == 0) return "it differs between samples";
  mask_.extents.assign(shape.extents().begin() + first, shape.extents().end());
  const auto size = static_cast<size_t>(Shape(mask_.extents).elements());
  mask_.counts.assign(size, true);
  mask_.biases.assign(size, 0);
  for (const Added& each : masks_) {
    const std::vector<float> all = spread(each.values, each.shape, mask_.extents);
    for (size_t i = 0; i < size; ++i) {
      mask_.biases[i] += all[i];
      if (all[i] <= each.bound) mask_.counts[i] = false;
    }
  }
  bool full = true;
  mask_.for_each_row([&](int64_t begin, int64_t step, int64_t n) {
    full = make_relative(begin, step, n) && full;
  });
  if (!full) return "it leaves out all elements of a row";
  if (std::ranges::all_of(mask_.biases, [](float each) { return each == 0; })) {
    mask_.biases.clear();
  }
  return {};
}

bool ScorePath::make_relative(int64_t begin, int64_t step, int64_t n) {
  constexpr float least = -500;
  float largest = -std::numeric_limits<float>::infinity();
  const auto places = [&](const auto& f) {
    for (int64_t k = 0; k < n; ++k) f(static_cast<size_t>(begin + k * step));
  };
  places([&](size_t i) {
    if (mask_.counts[i]) largest = std::max(largest, mask_.biases[i]);
  });
  if (std::isinf(largest)) return false;
  places([&](size_t i) {
    mask_.biases[i] -= largest;
    if (mask_.biases[i] < least) mask_.counts[i] = false;
    if (!mask_.counts[i]) mask_.biases[i] = 0;
  });
  return true;
}

}  // namespace qtape
