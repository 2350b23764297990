// Mul: y = a b, broadcast.
#pragma once

#include "qtape/ops/families/broadcast.h"

namespace qtape {

struct Mul : Broadcast<Mul> {
  static constexpr std::string_view name = "Mul";
  static constexpr std::string_view doc =
      "y = a b, element by element. a and b f32 or f64 of shapes that broadcast as in NumPy: "
      "aligned at the last axis, an extent of 1 or a missing one is repeated; y the common "
      "shape. Gradients: da = dy b, db = dy a, summed in double and in a fixed order over the "
      "axes along which the operand is repeated. Keeps both operands.";
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
