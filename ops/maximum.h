// Maximum: y = max(a, b), broadcast.
#pragma once

#include "qtape/ops/families/broadcast.h"

namespace qtape {

struct Maximum : Broadcast<Maximum> {
  static constexpr std::string_view name = "Maximum";
  static constexpr OpDocs docs{
      .summary = "Takes the larger of two tensors, element by element.",
      .formula = "y = max(a, b).",
      .operands = broadcast::operands,
      .gradient = {"dy goes to the operand that is y, and to a if both are.",
                   broadcast::summed},
      .saves = "Both operands.",
      .edge_cases = {"NaN in either operand gives NaN.", "Of zeros with two signs, y is a."},
      .source = "Elementary; broadcasting is NumPy's."};
  static constexpr Sign sign = Sign::Kept;
  static constexpr bool reads_operands = true;

  static constexpr auto fields() { return std::tuple<>{}; }
  template <class T>
  static T value(T a, T b) {
    return takes_a(a, b) ? a : b;
  }
  template <class T>
  static T gradient_a(T dy, T a, T b) {
    return takes_a(a, b) ? dy : T(0);
  }
  template <class T>
  static T gradient_b(T dy, T a, T b) {
    return takes_a(a, b) ? T(0) : dy;
  }
  bool operator==(const Maximum&) const = default;

 private:
  template <class T>
  static bool takes_a(T a, T b) {
    return a >= b || a != a;
  }
};

}  // namespace qtape
