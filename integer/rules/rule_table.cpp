#include "qtape/integer/rules/rule_table.h"

#include <set>

#include "qtape/engine/quantizers.h"
#include "qtape/integer/rules/rules.h"

namespace qtape {

bool is_view(const Op& op) {
  return std::visit([]<class X>(const X&) { return IsView<X>; }, op);
}

bool keeps_codes(const Op& op) {
  return std::visit([]<class X>(const X&) { return KeepsCodes<X>; }, op);
}

bool rounds(const Op& op) {
  return std::visit(
      []<class X>(const X& each) {
        if constexpr (Rounds<X>) return IntegerRule<X>::rounds(each);
        return false;
      },
      op);
}

bool joins(const Op& op) {
  return std::visit([]<class X>(const X&) { return Joins<X>; }, op);
}

float map_value(const Op& op, std::span<const float> operands) {
  return std::visit(
      [&]<class X>(const X& each) -> float {
        if constexpr (Pointwise<X>) return each.value(operands[0]);
        if constexpr (PointwisePair<X>) return X::value(operands[0], operands[1]);
        fail<Error>("{} is not elementwise", X::name);
      },
      op);
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

bool adds_bias(const Op& op) {
  return std::visit([]<class X>(const X&) { return AddsBias<X>; }, op);
}

std::optional<integer::NormNumbers> norm_of(const Op& op) {
  return std::visit(
      []<class X>(const X& each) -> std::optional<integer::NormNumbers> {
        if constexpr (Normalizes<X>) return IntegerRule<X>::norm(each);
        return std::nullopt;
      },
      op);
}

std::optional<size_t> indices_operand(const Op& op) {
  return std::visit(
      []<class X>(const X&) -> std::optional<size_t> {
        if constexpr (LooksUp<X>) return IntegerRule<X>::indices;
        return std::nullopt;
      },
      op);
}

std::optional<size_t> weights_operand(const Op& op) {
  return std::visit(
      []<class X>(const X&) -> std::optional<size_t> {
        if constexpr (Multiplies<X>) return IntegerRule<X>::weights;
        return std::nullopt;
      },
      op);
}

WeightLayout weight_layout(const Op& op, const Shape& weights) {
  return std::visit(
      [&]<class X>(const X& each) -> WeightLayout {
        if constexpr (Multiplies<X>) return IntegerRule<X>::layout(each, weights);
        fail<Error>("{} has no weights", X::name);
      },
      op);
}

Verdict classify(const Op& op, const Operands& operands) {
  return std::visit(
      [&]<class X>(const X& each) { return IntegerRule<X>::classify(each, operands); }, op);
}

IntegerOp emit(const Op& op, const Numbers& numbers) {
  return std::visit(
      [&]<class X>(const X& each) -> IntegerOp {
        if constexpr (Emits<X>) return IntegerRule<X>::emit(each, numbers);
        fail<Error>("{} has no integer op", X::name);
      },
      op);
}

}  // namespace qtape
