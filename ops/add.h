// Add: y = a + b, broadcast.
#pragma once

#include "qtape/ops/families/broadcast.h"

namespace qtape {

struct Add : Broadcast<Add> {
  static constexpr std::string_view name = "Add";
  static constexpr OpDocs docs{.summary = "Adds two tensors element by element.",
                               .formula = "y = a + b.",
                               .operands = broadcast::operands,
                               .gradient = {"da = dy, db = dy.", broadcast::summed},
                               .saves = "Nothing.",
                               .edge_cases = "None.",
                               .source = "Elementary; broadcasting is NumPy's."};
  static constexpr Sign sign = Sign::Kept;
  static constexpr bool reads_operands = false;

  static constexpr auto fields() { return std::tuple<>{}; }
  template <class T>
  static T value(T a, T b) {
    return a + b;
  }
  template <class T>
  static T gradient_a(T dy, T, T) {
    return dy;
  }
  template <class T>
  static constexpr T gradient_b(T dy, T, T) {
    return dy;
  }
  bool operator==(const Add&) const = default;
};

}  // namespace qtape
