// Add, Sub and Mul of two code tensors, with a third grid for the result; and Maximum and
// Minimum, whose operands are requantized to the grid that follows.
#pragma once

#include <optional>

#include "qtape/integer/rules/rule.h"

namespace qtape {

/// Returns the node of whose codes both operands, and so the result, are functions element by
/// element. Returns nullopt if there is none, and for two operands that are codes themselves.
inline std::optional<NodeId> common_codes(const Operands& operands) {
  const IntegerForm& a = operands.form(0);
  const IntegerForm& b = operands.form(1);
  const bool maps = a.codes.index >= 0 && b.codes.index >= 0;
  if (!maps || (a.is_plain_codes() && b.is_plain_codes())) return std::nullopt;
  const bool same = operands.form_of(a.codes).source == operands.form_of(b.codes).source &&
                    operands.shape(0) == operands.shape(1);
  if (!same) return std::nullopt;
  // A table by channel needs the last axis of the codes that it reads.
  const Graph& graph = operands.graph();
  const bool alike = graph[a.codes].type.shape == graph[b.codes].type.shape;
  const bool by_channel = operands.maps_by_channel(0) || operands.maps_by_channel(1);
  return alike || !by_channel ? std::optional(a.codes) : std::nullopt;
}

/// A function of one code becomes a lookup table; otherwise requires two operands of codes,
/// which may be constants.
inline Verdict classify_pair(const Operands& operands) {
  if (const std::optional<NodeId> codes = common_codes(operands)) {
    return {.is = Verdict::Is::Pending, .codes = *codes};
  }
  for (size_t k = 0; k < 2; ++k) {
    if (!operands.has_codes(k)) return operands.refuse_codes(k);
  }
  return {.is = Verdict::Is::Pending};
}

inline Verdict classify_choice(const Operands& operands) {
  if (const std::optional<NodeId> codes = common_codes(operands)) {
    return {.is = Verdict::Is::Pending, .codes = *codes};
  }
  return operands.classify_joined();
}

template <>
struct IntegerRule<Add> {
  static Verdict classify(const Add&, const Operands& operands) {
    return classify_pair(operands);
  }
  static IntegerOp emit(const Add&, const Numbers& numbers) {
    return integer::Add{.grid = numbers.grid};
  }
};

template <>
struct IntegerRule<Sub> {
  static Verdict classify(const Sub&, const Operands& operands) {
    return classify_pair(operands);
  }
  static IntegerOp emit(const Sub&, const Numbers& numbers) {
    return integer::Sub{.grid = numbers.grid};
  }
};

template <>
struct IntegerRule<Mul> {
  static Verdict classify(const Mul&, const Operands& operands) {
    return classify_pair(operands);
  }
  static IntegerOp emit(const Mul&, const Numbers& numbers) {
    return integer::Mul{.grid = numbers.grid};
  }
};

template <>
struct IntegerRule<Maximum> {
  static constexpr bool joins = true;

  static Verdict classify(const Maximum&, const Operands& operands) {
    return classify_choice(operands);
  }
  static IntegerOp emit(const Maximum&, const Numbers&) { return integer::Maximum{}; }
};

template <>
struct IntegerRule<Minimum> {
  static constexpr bool joins = true;

  static Verdict classify(const Minimum&, const Operands& operands) {
    return classify_choice(operands);
  }
  static IntegerOp emit(const Minimum&, const Numbers&) { return integer::Minimum{}; }
};

/// Quotients have integers as part of a function of one code alone.
template <>
struct IntegerRule<Div> {
  static Verdict classify(const Div&, const Operands& operands) {
    if (const std::optional<NodeId> codes = common_codes(operands)) {
      return {.is = Verdict::Is::Pending, .codes = *codes};
    }
    return refusal(
        "has integers only if both operands are functions of the same codes",
        "replace it with an op that has an integer form, or end the model before it");
  }
};

}  // namespace qtape
