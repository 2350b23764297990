// Div: y = a / b, broadcast.
#pragma once

#include "qtape/ops/families/broadcast.h"

namespace qtape {

struct Div : Broadcast<Div> {
  static constexpr std::string_view name = "Div";
  static constexpr OpDocs docs{
      .summary = "Divides two tensors element by element.",
      .formula = "y = a / b.",
      .operands = broadcast::operands,
      .gradient = {"da = dy / b, db = -dy (a / b) / b.", broadcast::summed},
      .saves = "Both operands.",
      .edge_cases = "Division by 0 gives infinities and NaN as in IEEE 754.",
      .source = "Elementary; broadcasting is NumPy's."};
  static constexpr bool reads_operands = true;

  static constexpr auto fields() { return std::tuple<>{}; }
  template <class T>
  static T value(T a, T b) {
    return a / b;
  }
  template <class T>
  static T gradient_a(T dy, T, T b) {
    return dy / b;
  }
  template <class T>
  static T gradient_b(T dy, T a, T b) {
    return -(dy * (a / b)) / b;
  }
  bool operator==(const Div&) const = default;
};

}  // namespace qtape
