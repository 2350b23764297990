// Log: y = ln x.
#pragma once

#include "qtape/core/math.h"
#include "qtape/ops/families/elementwise.h"

namespace qtape {

struct Log : Elementwise<Log> {
  static constexpr std::string_view name = "Log";
  static constexpr OpDocs docs{.summary = "The natural logarithm of each element.",
                               .formula = "y = ln x.",
                               .operands = elementwise::operands,
                               .gradient = "dx = dy / x.",
                               .saves = "x.",
                               .edge_cases = "-infinity at 0, NaN below 0.",
                               .source = "Elementary."};
  static constexpr SlopeOf slope_of = SlopeOf::Operand;

  static constexpr auto fields() { return std::tuple<>{}; }
  template <class T>
  T value(T x) const {
    return static_cast<T>(math::log(x));
  }
  template <class T>
  T slope(T x) const {
    return T(1) / x;
  }
  bool operator==(const Log&) const = default;
};

}  // namespace qtape
