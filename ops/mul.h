// Mul: y = a b, broadcast.
#pragma once

#include "qtape/ops/families/broadcast.h"

namespace qtape {

struct Mul : Broadcast<Mul> {
  static constexpr std::string_view name = "Mul";
  static constexpr OpDocs docs{.summary = "Multiplies two tensors element by element.",
                               .formula = "y = a b.",
                               .operands = broadcast::operands,
                               .gradient = {"da = dy b, db = dy a.", broadcast::summed},
                               .saves = "Both operands.",
                               .edge_cases = "None.",
                               .source = "Elementary; broadcasting is NumPy's."};
  static constexpr bool reads_operands = true;

  static constexpr auto fields() { return std::tuple<>{}; }
  template <class T>
  static T value(T a, T b) {
    return a * b;
  }
  template <class T>
  static T gradient_a(T dy, T, T b) {
    return dy * b;
  }
  template <class T>
  static T gradient_b(T dy, T a, T) {
    return dy * a;
  }
  bool operator==(const Mul&) const = default;
};

}  // namespace qtape
