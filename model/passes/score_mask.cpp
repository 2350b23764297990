#include "qtape/model/passes/score_mask.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "qtape/engine/constants.h"
#include "qtape/engine/labels.h"
#include "qtape/engine/quantizers.h"
#include "qtape/integer/rules/analysis.h"
#include "qtape/model/passes/last_softmax.h"

namespace qtape {
namespace {

/// Calls f(first, step, n) for each row along the axis: its elements are first + k * step.
template <class F>
void for_each_row(const ScoreMask& mask, const F& f) {
  const std::span<const int64_t> extents = mask.extents;
  const auto axis = static_cast<size_t>(mask.axis + std::ssize(extents));
  const int64_t n = extents[axis];
  const int64_t step = Shape(extents.subspan(axis + 1)).elements();
  for (int64_t outer = 0; outer < Shape(extents.first(axis)).elements(); ++outer) {
    for (int64_t inner = 0; inner < step; ++inner) f(outer * n * step + inner, step, n);
  }
}

/// Returns the index of the operand of an Add or Sub that is a leaf, if one of the two is and
/// it is not subtracted from.
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

/// Returns the values that a sum adds to its other operand.
std::vector<float> added_values(const Graph& graph, const Parameters& parameters, NodeId sum,
                                size_t leaf) {
  std::vector<float> values = leaf_values(graph, parameters, graph[sum].operands[leaf]);
  if (std::holds_alternative<Sub>(graph[sum].op)) {
    for (float& each : values) each = -each;
  }
  return values;
}

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

/// The nodes from a Softmax to its scores.
class Path {
 public:
  Path(const Graph& graph, const Parameters& parameters, NodeId softmax)
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

  /// Returns the mask, or the reason why there is none.
  std::string finish(ScoreMask& result) {
    if (masks_.empty()) return "there is no mask";
    while (!is_mask(mask_.steps.back().node)) mask_.steps.pop_back();
    std::ranges::reverse(mask_.steps);
    std::string reason = combine();
    if (reason.empty()) result = std::move(mask_);
    return reason;
  }
  bool is_mask(NodeId sum) const {
    return std::ranges::find(masks_, sum, &Added::sum) != masks_.end();
  }
  bool contains(NodeId sum) const {
    return std::ranges::find(mask_.steps, sum, &ScoreStep::node) != mask_.steps.end();
  }
  /// Returns the scores before the first step.
  NodeId scores() const { return last_; }

 private:
  struct Added {
    NodeId sum;
    Shape shape;
    std::vector<float> values;
    float bound;
  };

  /// Goes one node further from the Softmax; false where the scores begin.
  bool step() {
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

  /// True if the leaf of the sum `last_` is a mask.
  bool add_mask(size_t leaf) {
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

  /// Sets the elements of all masks; returns the reason why they have no integers, if any.
  std::string combine() {
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
    for_each_row(mask_, [&](int64_t begin, int64_t step, int64_t n) {
      full = make_relative(begin, step, n) && full;
    });
    if (!full) return "it leaves out all elements of a row";
    if (std::ranges::all_of(mask_.biases, [](float each) { return each == 0; })) {
      mask_.biases.clear();
    }
    return {};
  }

  /// Makes the biases of a row relative to the largest one; false if no element counts.
  bool make_relative(int64_t begin, int64_t step, int64_t n) {
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

  const Graph& graph_;
  const Parameters& parameters_;
  NodeId last_;
  float factor_ = 1;  // of the steps so far
  ScoreMask mask_;
  std::vector<Added> masks_;
};

NodeId before_moves(const Graph& graph, NodeId id) {
  while (is_any<Reshape, Slice, Gather, Transpose>(graph[id].op)) id = graph[id].operands[0];
  return id;
}

/// True for a large number times a value, or added to one.
bool is_large(const Graph& graph, NodeId id) {
  const auto* affine = std::get_if<Affine>(&graph[id].op);
  return affine != nullptr &&
         std::max(std::fabs(affine->factor), std::fabs(affine->offset)) >= -far_score;
}

/// Search for nodes whose values have no codes.
class Refusals {
 public:
  Refusals(const Graph& graph, const Parameters& parameters)
      : graph_(graph),
        parameters_(parameters),
        answers_(graph.answers()),
        needed_(needed_for(graph, answers_)),
        readers_(graph),
        last_(last_softmaxes(graph)) {
    for (const NodeId id : ids(graph)) {
      if (!needed_[at(id)]) continue;
      for (const NodeId operand : graph[id].operands) readers_[operand].push_back(id);
    }
  }

  std::vector<Finding> run() {
    for (const NodeId id : ids(graph_)) {
      const Node& node = graph_[id];
      if (!needed_[at(id)] || node.type.dtype != DType::F32) continue;
      if (is_any<Constant, Parameter, State>(node.op)) leaf(id);
      if (std::holds_alternative<Softmax>(node.op)) computed_masks(id);
    }
    return std::move(found_);
  }

 private:
  /// Of a leaf: `hopeless` if no grid holds its values, whatever they are added to.
  struct Leaf {
    bool infinite, hopeless;
  };

  void add(NodeId id, std::string what, const char* remedy) {
    found_.push_back({Severity::Error, name_near(graph_, id), std::move(what), remedy});
  }

  void leaf(NodeId id) {
    const std::vector<float> values = leaf_values(graph_, parameters_, id);
    const bool infinite = std::ranges::any_of(values, [](float v) { return std::isinf(v); });
    const bool is_hopeless =
        std::ranges::any_of(values, [](float v) { return std::fabs(v) >= 1e7f; }) &&
        (infinite || std::ranges::any_of(values, [](float v) { return std::fabs(v) <= 1e3f; }));
    const std::string reason = of_leaf(id, {infinite, is_hopeless});
    if (!reason.empty())
      add(id, (infinite ? "infinite values have no codes: " : "no mask in integers: ") + reason,
          "masks have integers where they are added to the operand of a Softmax that is not the "
          "last node, are the same for all samples and leave an element in each row");
  }

  /// Returns why a reader has no integers for the leaf; empty if all have.
  std::string of_leaf(NodeId id, const Leaf& leaf) const {
    return of_readers(id, [&](NodeId reader) -> std::string {
      // Conversion checks what quantizers read.
      if (is_quantizer(graph_[reader].op)) return "";
      const auto operand = leaf_operand(graph_, reader);
      if (operand && graph_[reader].operands[*operand] == id) {
        const bool masks =
            mask_bound(added_values(graph_, parameters_, reader, *operand)).has_value();
        return masks || leaf.hopeless ? of_sum(reader, reader, leaf, 0) : "";
      }
      const bool adds = is_any<Add, Sub, AddBias>(graph_[reader].op);
      return leaf.infinite || (leaf.hopeless && adds)
                 ? "it is an operand of " + name_near(graph_, reader)
                 : "";
    });
  }

  /// Does the same for `value`, `depth` nodes after the sum of the leaf and other values.
  std::string of_sum(NodeId sum, NodeId value, const Leaf& leaf, int depth) const {
    constexpr int max_depth = 64;
    if (depth > max_depth) return "";
    if (leaf.hopeless && std::ranges::find(answers_, value) != answers_.end()) {
      return name_near(graph_, value) + " is an answer";
    }
    return of_readers(value, [&](NodeId id) -> std::string {
      const Op& op = graph_[id].op;
      if (is_any<Softmax, LogSoftmax>(op)) return of_softmax(sum, id);
      if (is_any<Reshape, Affine, Clamp>(op) || leaf_operand(graph_, id)) {
        return of_sum(sum, id, leaf, depth + 1);
      }
      return leaf.hopeless ? "its sum is an operand of " + name_near(graph_, id) : "";
    });
  }

  std::string of_softmax(NodeId sum, NodeId softmax) const {
    if (std::ranges::find(last_, softmax) != last_.end()) {
      return name_near(graph_, softmax) + " is last, so that its operand is the answer";
    }
    if (std::holds_alternative<LogSoftmax>(graph_[softmax].op)) {
      return "the logarithms of " + name_near(graph_, softmax) + " have no codes for it";
    }
    Path path(graph_, parameters_, softmax);
    if (!path.contains(sum))
      return "the elements of its rows are moved between its sum and " +
             name_near(graph_, softmax);
    if (!path.is_mask(sum)) {
      return "its values are not those of a mask: biases within -1,000 and 1,000 beside values of "
             "at most -5,000";
    }
    ScoreMask mask;
    return path.finish(mask);
  }

  /// Adds findings for values beside the scores of a Softmax that are a large number times a
  /// value that depends on inputs.
  void computed_masks(NodeId softmax) {
    const NodeId scores = Path(graph_, parameters_, softmax).scores();
    if (!is_any<Add, Sub>(graph_[scores].op)) return;
    for (const NodeId operand : graph_[scores].operands) {
      const NodeId id = before_moves(graph_, operand);
      if (!is_large(graph_, id)) continue;
      add(id, "no codes hold a mask that depends on inputs beside scores",
          "subtract a number near the scores, such as 30, or make the mask a constant");
    }
  }

  /// Returns the first reason that a reader of a value gives.
  template <class F>
  std::string of_readers(NodeId value, const F& reason_of) const {
    for (const NodeId id : readers_[value]) {
      std::string reason = reason_of(id);
      if (!reason.empty()) return reason;
    }
    return {};
  }

  const Graph& graph_;
  const Parameters& parameters_;
  std::vector<NodeId> answers_;
  std::vector<bool> needed_;
  NodeMap<std::vector<NodeId>, Graph> readers_;
  std::vector<NodeId> last_;
  std::vector<Finding> found_;
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
  ScoreMask mask;
  if (!Path(graph, parameters, softmax).finish(mask).empty()) return std::nullopt;
  return mask;
}

std::vector<Finding> values_without_codes(const Graph& graph, const Parameters& parameters) {
  return Refusals(graph, parameters).run();
}

}  // namespace qtape
