// Div: y = a / b, broadcast.
#pragma once

#include "qtape/ops/families/broadcast.h"

namespace qtape {

struct Div : Broadcast<Div> {
  static constexpr std::string_view name = "Div";
  static constexpr std::string_view doc =
      "y = a / b; division by 0 gives infinities and NaN as in IEEE 754. a and b f32 or f64 "
      "of shapes that broadcast as in NumPy: aligned at the last axis, an extent of 1 or a "
      "missing one is repeated; y the common shape. Gradients: da = dy / b, db = -dy (a / b) "
      "/ b, summed in double and in a fixed order over the axes along which the operand is "
      "repeated. Keeps both operands.";
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
