#include "qtape/integer/rules/rule_table.h"

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

bool maps(const Op& op) {
  return std::visit([]<class X>(const X&) { return Maps<X>; }, op);
}

float map_value(const Op& op, float x) {
  return std::visit(
      [x]<class X>(const X& each) -> float {
        if constexpr (Pointwise<X>) return each.value(x);
        fail<Error>("{} is not a function of one element", X::name);
      },
      op);
}

bool Operands::maps(NodeId id) const { return qtape::maps(graph_[id].op); }

bool adds_bias(const Op& op) {
  return std::visit([]<class X>(const X&) { return AddsBias<X>; }, op);
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
