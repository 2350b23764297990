#include "qtape/integer/rules/rule_table.h"

#include <set>

#include "qtape/engine/quantizers.h"
#include "qtape/integer/rules/rules.h"
#include "qtape/ops/op_table.h"

namespace qtape {

namespace {

/// The rule of one type, for an Op that holds it. Functions that it lacks are null.
struct Rule {
  bool view = false;
  bool keeps_codes = false;
  bool joins = false;
  bool adds_bias = false;
  bool pointwise = false;
  std::optional<size_t> indices = {};
  std::optional<size_t> weights = {};
  Verdict (*classify)(const Op&, const Operands&) = nullptr;
  IntegerOp (*emit)(const Op&, const Numbers&) = nullptr;
  bool (*rounds)(const Op&) = nullptr;
  float (*map)(const Op&, std::span<const float>) = nullptr;
  ValueLimits (*limits)(const Op&) = nullptr;
  integer::NormNumbers (*norm)(const Op&) = nullptr;
  WeightLayout (*layout)(const Op&, const Shape&) = nullptr;
};

template <class X>
constexpr Rule rule_for() {
  using Given = IntegerRule<X>;
  Rule rule{.view = IsView<X>,
            .keeps_codes = KeepsCodes<X>,
            .joins = Joins<X>,
            .adds_bias = AddsBias<X>,
            .pointwise = Pointwise<X>};
  rule.classify = [](const Op& op, const Operands& operands) {
    return Given::classify(as<X>(op), operands);
  };
  if constexpr (Emits<X>) {
    rule.emit = [](const Op& op, const Numbers& numbers) -> IntegerOp {
      return Given::emit(as<X>(op), numbers);
    };
  }
  if constexpr (Rounds<X>) rule.rounds = [](const Op& op) { return Given::rounds(as<X>(op)); };
  if constexpr (Pointwise<X>) {
    rule.map = [](const Op& op, std::span<const float> x) { return as<X>(op).value(x[0]); };
  }
  if constexpr (PointwisePair<X>) {
    rule.map = [](const Op&, std::span<const float> x) { return X::value(x[0], x[1]); };
  }
  if constexpr (Limiting<X>) rule.limits = [](const Op& op) { return as<X>(op).limits(); };
  if constexpr (Normalizes<X>) rule.norm = [](const Op& op) { return Given::norm(as<X>(op)); };
  if constexpr (LooksUp<X>) rule.indices = Given::indices;
  if constexpr (Multiplies<X>) {
    rule.weights = Given::weights;
    rule.layout = [](const Op& op, const Shape& shape) {
      return Given::layout(as<X>(op), shape);
    };
  }
  return rule;
}

const Rule& rule_of(const Op& op) {
  static constexpr auto rules = op_table([]<class X>() { return rule_for<X>(); });
  return rules[op.index()];
}

}  // namespace

bool is_view(const Op& op) { return rule_of(op).view; }
NodeId origin_of(const Graph& graph, NodeId id) {
  while (is_view(graph[id].op)) id = graph[id].operands[0];
  return id;
}
bool keeps_codes(const Op& op) { return rule_of(op).keeps_codes; }
bool joins(const Op& op) { return rule_of(op).joins; }
bool adds_bias(const Op& op) { return rule_of(op).adds_bias; }
bool is_pointwise(const Op& op) { return rule_of(op).pointwise; }
std::optional<size_t> indices_operand(const Op& op) { return rule_of(op).indices; }
std::optional<size_t> weights_operand(const Op& op) { return rule_of(op).weights; }

std::optional<NodeId> constant_weights(const Graph& graph, const std::vector<bool>& constant,
                                       NodeId id) {
  const auto operand = weights_operand(graph[id].op);
  if (!operand) return std::nullopt;
  const NodeId weights = graph[id].operands[*operand];
  return constant[at(weights)] ? std::optional(weights) : std::nullopt;
}

bool rounds(const Op& op) {
  const Rule& rule = rule_of(op);
  return rule.rounds != nullptr && rule.rounds(op);
}

float map_value(const Op& op, std::span<const float> operands) {
  const Rule& rule = rule_of(op);
  require<Error>(rule.map != nullptr, "{} is not elementwise", name_of(op));
  return rule.map(op, operands);
}

std::optional<ValueLimits> limits_of(const Op& op) {
  const Rule& rule = rule_of(op);
  if (rule.limits == nullptr) return std::nullopt;
  return rule.limits(op);
}

std::optional<integer::NormNumbers> norm_of(const Op& op) {
  const Rule& rule = rule_of(op);
  if (rule.norm == nullptr) return std::nullopt;
  return rule.norm(op);
}

WeightLayout weight_layout(const Op& op, const Shape& weights) {
  const Rule& rule = rule_of(op);
  require<Error>(rule.layout != nullptr, "{} has no weights", name_of(op));
  return rule.layout(op, weights);
}

Verdict classify(const Op& op, const Operands& operands) {
  return rule_of(op).classify(op, operands);
}

IntegerOp emit(const Op& op, const Numbers& numbers) {
  const Rule& rule = rule_of(op);
  require<Error>(rule.emit != nullptr, "{} has no integer op", name_of(op));
  return rule.emit(op, numbers);
}

bool Operands::has_codes(size_t k) const {
  const IntegerForm& x = form(k);
  if (x.kind != IntegerKind::Weight) return x.is_plain_codes();
  return channel_map(graph_, x.quantizer).channels == 1;
}

Verdict Operands::refuse_codes(size_t k) const {
  if (!constant(k)) return refuse(k);
  if (form(k).kind != IntegerKind::Weight) return refuse_unquantized(k);
  return refusal(fmt::format("{} has {} scales; operands need one", graph_.describe(id(k)),
                             channel_map(graph_, form(k).quantizer).channels),
                 "quantize it per tensor");
}

Verdict Operands::classify_joined() const {
  for (size_t k = 0; k < size(); ++k) {
    const IntegerForm& x = form(k);
    const Op& source = graph_[x.source.index < 0 ? id(k) : x.source].op;
    const bool nested =
        x.kind == IntegerKind::Pending && (x.codes.index >= 0 || qtape::joins(source));
    if ((!x.is_integer() && !has_codes(k)) || nested) return refuse_codes(k);
  }
  return {.is = Verdict::Is::Pending};
}

bool Operands::maps_by_channel(size_t k) const {
  std::set<NodeId> seen;
  std::vector<NodeId> open = {id(k)};
  while (!open.empty()) {
    const NodeId next = open.back();
    open.pop_back();
    if (is_constant(next) || form_of(next).is_plain_codes() || !seen.insert(next).second)
      continue;
    const Node& node = graph_[next];
    const bool slopes = std::holds_alternative<PRelu>(node.op);
    if (slopes && graph_[node.operands[1]].type.elements() > 1) return true;
    open.insert(open.end(), node.operands.begin(), node.operands.end());
  }
  return false;
}

}  // namespace qtape
