// Sub: y = a - b, broadcast.
#pragma once

#include "qtape/ops/families/broadcast.h"

namespace qtape {

struct Sub : Broadcast<Sub> {
  static constexpr std::string_view name = "Sub";
  static constexpr std::string_view doc =
      "y = a - b. a and b f32 or f64 of shapes that broadcast as in NumPy: aligned at the "
      "last axis, an extent of 1 or a missing one is repeated; y the common shape. Gradients: "
      "da = dy, db = -dy, summed in double and in a fixed order over the axes along which the "
      "operand is repeated. Keeps nothing.";
  static constexpr bool reads_operands = false;

  static constexpr auto fields() { return std::tuple<>{}; }
  template <class T>
  static T value(T a, T b) {
    return a - b;
  }
  template <class T>
  static T gradient_a(T dy, T, T) {
    return dy;
  }
  template <class T>
  static T gradient_b(T dy, T, T) {
    return -dy;
  }
  bool operator==(const Sub&) const = default;
};

}  // namespace qtape
