#include "qtape/model/passes/values_without_codes.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "qtape/engine/constants.h"
#include "qtape/engine/labels.h"
#include "qtape/engine/quantizers.h"
#include "qtape/integer/rules/analysis.h"
#include "qtape/model/passes/last_softmax.h"
#include "qtape/model/passes/score_path.h"

namespace qtape {
namespace {

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
  /// Of a leaf: `hopeless` if no grid holds its values, whatever they are added to; `negative`
  /// if its lowest value is large, as in a mask.
  struct Leaf {
    bool infinite, hopeless, negative;
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
    const bool negative = std::ranges::any_of(values, [](float v) { return v <= -1e7f; });
    const std::string reason = of_leaf(id, {infinite, is_hopeless, negative});
    if (reason.empty()) return;
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
      // Biases of products have the scales of their sums.
      const bool bias = std::holds_alternative<AddBias>(graph_[reader].op) && !leaf.negative;
      const bool adds = is_any<Add, Sub, AddBias>(graph_[reader].op) && !bias;
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
    ScorePath path(graph_, parameters_, softmax);
    if (!path.contains(sum)) {
      return "the elements of its rows are moved between its sum and " +
             name_near(graph_, softmax);
    }
    if (!path.is_mask(sum)) {
      return "its values are not those of a mask: biases within -1,000 and 1,000 together with "
             "values of at most -5,000";
    }
    ScoreMask mask;
    return path.finish(mask);
  }

  /// Adds findings for values added to the scores of a Softmax that are a large number times a
  /// value that depends on inputs.
  void computed_masks(NodeId softmax) {
    const NodeId scores = ScorePath(graph_, parameters_, softmax).scores();
    if (!is_any<Add, Sub>(graph_[scores].op)) return;
    for (const NodeId operand : graph_[scores].operands) {
      const NodeId id = before_moves(graph_, operand);
      if (!is_large(graph_, id)) continue;
      add(id, "no codes hold both scores and a mask that depends on inputs",
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

std::vector<Finding> values_without_codes(const Graph& graph, const Parameters& parameters) {
  return Refusals(graph, parameters).run();
}

}  // namespace qtape
