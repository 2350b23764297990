#include "qtape/integer/rules/analysis.h"

#include <fmt/format.h>

#include <algorithm>

#include "qtape/engine/constants.h"
#include "qtape/engine/quantizers.h"
#include "qtape/integer/rules/rule_table.h"

namespace qtape {

class GrowingAnalysis::Analyzer {
 public:
  explicit Analyzer(const Graph& graph) : graph_(graph) {}

  const IntegerAnalysis& extend() {
    const auto known = static_cast<int32_t>(constant_.size());
    extend_constant(graph_, constant_);
    blocked_.resize(constant_.size());
    result_.forms.resize(constant_.size());
    result_.origins.resize(constant_.size());
    result_.refusals.resize(constant_.size());
    for (id_ = NodeId{known}; id_.index < graph_.size(); ++id_.index) {
      const Node& node = graph_[id_];
      const bool view = is_view(node.op);
      result_.origins[at(id_)] = view ? result_.origin(node.operands[0]) : id_;
      form() = view ? shown() : is_quantizer(node.op) ? quantizer() : other();
    }
    return result_;
  }
  IntegerAnalysis result() && { return std::move(result_); }

 private:
  IntegerForm& form() { return result_.forms[at(id_)]; }
  const Node& node() const { return graph_[id_]; }
  const IntegerForm& operand(size_t k) const { return result_[node().operands[k]]; }
  Operands operands() const { return {graph_, result_.forms, constant_, id_}; }

  bool blocked_before() const {
    return std::ranges::any_of(node().operands,
                               [&](NodeId id) -> bool { return blocked_[at(id)]; });
  }

  /// Marks the node as having no integers, and as the cause unless an earlier node is.
  IntegerForm refuse(Verdict verdict) {
    if (!blocked_before()) result_.refusals[at(id_)] = std::move(verdict);
    blocked_[at(id_)] = true;
    return {};
  }

  IntegerForm shown() {
    blocked_[at(id_)] = blocked_before();
    IntegerForm result = operand(0);
    if (result.is_plain_codes()) result.codes = id_;
    return result;
  }

  IntegerForm quantizer() {
    const TensorType& type = node().type;
    if (type.dtype != DType::F32) {
      return refuse(refusal(
          fmt::format("integers represent f32 values, got {}", to_string_view(type.dtype)),
          "build the graph in f32"));
    }
    if (constant_[at(id_)]) {
      return {.kind = IntegerKind::Weight, .source = id_, .quantizer = id_};
    }
    const int64_t scales = channel_map(graph_, id_).channels;
    if (scales != 1) {
      return refuse(refusal(fmt::format("has {} scales; activations need one", scales),
                            "quantize them per tensor"));
    }
    if (operand(0).kind == IntegerKind::Indices) return refuse(operands().refuse(0));
    if (operand(0).kind == IntegerKind::Float && !blocked_before() &&
        !std::holds_alternative<Input>(graph_[result_.origin(node().operands[0])].op)) {
      return refuse(operands().refuse(0));
    }
    return {.kind = IntegerKind::Codes, .source = id_, .quantizer = id_, .codes = id_};
  }

  IntegerForm other() {
    if (constant_[at(id_)]) return {};
    Verdict verdict = classify(node().op, operands());
    switch (verdict.is) {
      case Verdict::Is::Codes:
        return {.kind = IntegerKind::Codes,
                .source = id_,
                .quantizer = operand(0).quantizer,
                .codes = id_};
      case Verdict::Is::Accumulators:
        return accumulators();
      case Verdict::Is::Pending:
        return {.kind = IntegerKind::Pending, .source = id_, .codes = verdict.codes};
      case Verdict::Is::Indices:
        return {.kind = IntegerKind::Indices, .source = id_};
      case Verdict::Is::Operand:
        return operand(0).limited(verdict.low, verdict.high);
      case Verdict::Is::Float:
        break;
    }
    return verdict.reason.empty() ? IntegerForm{} : refuse(std::move(verdict));
  }

  IntegerForm accumulators() const {
    IntegerForm result{.kind = IntegerKind::Accumulators, .source = id_};
    const auto weights = weights_operand(node().op);
    if (weights && operand(*weights).kind == IntegerKind::Weight) result.product = id_;
    if (adds_bias(node().op)) {
      result.product = operand(0).product;
      result.bias = added(node().operands[1]);
    }
    return result;
  }

  /// Returns the bias node before rounding to the accumulators' grid.
  NodeId added(NodeId id) const {
    const bool rounded = std::holds_alternative<FakeQuantizeBias>(graph_[id].op);
    return rounded ? graph_[id].operands[0] : id;
  }

  const Graph& graph_;
  IntegerAnalysis result_;
  NodeId id_;
  std::vector<bool> constant_;
  std::vector<bool> blocked_;
};

GrowingAnalysis::GrowingAnalysis(const Graph& graph)
    : analyzer_(std::make_unique<Analyzer>(graph)) {}

GrowingAnalysis::~GrowingAnalysis() = default;

const IntegerAnalysis& GrowingAnalysis::extend() { return analyzer_->extend(); }

IntegerAnalysis GrowingAnalysis::result() && {
  (void)extend();
  return std::move(*analyzer_).result();
}

IntegerAnalysis analyze_integers(const Graph& graph) { return GrowingAnalysis(graph).result(); }

std::vector<float> leaf_values(const Graph& graph, const Parameters& parameters, NodeId leaf) {
  const Node& node = graph[leaf];
  const auto* constant = std::get_if<Constant>(&node.op);
  const Tensor tensor = constant != nullptr ? constant->value : parameters.get(node.label);
  check(tensor.type == node.type, "{}: the parameters hold {}", graph.describe(leaf),
        to_string(tensor.type));
  const auto* first = reinterpret_cast<const float*>(tensor.data.data());
  return {first, first + tensor.type.elements()};
}

}  // namespace qtape
