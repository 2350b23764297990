// Neg: y = -x.
#pragma once

#include "qtape/ops/families/elementwise.h"

namespace qtape {

struct Neg : Elementwise<Neg> {
  static constexpr std::string_view name = "Neg";
  static constexpr OpDocs docs{.summary = "The negative of each element.",
                               .formula = "y = -x.",
                               .operands = elementwise::operands,
                               .gradient = "dx = -dy.",
                               .saves = "Nothing.",
                               .edge_cases = "None.",
                               .source = "Elementary."};
  static constexpr SlopeOf slope_of = SlopeOf::Nothing;

  static constexpr auto fields() { return std::tuple<>{}; }
  template <class T>
  T value(T x) const {
    return -x;
  }
  template <class T>
  T slope(T) const {
    return T(-1);
  }
  bool operator==(const Neg&) const = default;
};

}  // namespace qtape
