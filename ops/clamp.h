// Clamp: y = min(max(x, low), high).
#pragma once

#include "qtape/ops/families/elementwise.h"

namespace qtape {

struct Clamp {
  static constexpr std::string_view name = "Clamp";
  static constexpr OpDocs docs{.summary = "Clamps each element to a range.",
                               .formula = "y = min(max(x, low), high).",
                               .operands = elementwise::operands,
                               .gradient = "dx = dy where low <= x <= high, else 0.",
                               .saves = "x.",
                               .edge_cases = "NaN stays NaN.",
                               .source = "Elementary."};
  static constexpr SlopeOf slope_of = SlopeOf::Operand;
  static constexpr bool piecewise = true;

  double low = 0.0;
  double high = 1.0;

  static constexpr auto fields() {
    return std::tuple{field("low", &Clamp::low, "smallest output, finite"),
                      field("high", &Clamp::high, "largest output, finite, at least low")};
  }
  std::vector<Slot> slots() const { return {{.name = "x"}}; }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return elementwise::keep(slope_of); }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  template <class T>
  T value(T x) const {
    const T lifted = x < static_cast<T>(low) ? static_cast<T>(low) : x;
    return lifted > static_cast<T>(high) ? static_cast<T>(high) : lifted;
  }
  template <class T>
  T slope(T x) const {
    return x >= static_cast<T>(low) && x <= static_cast<T>(high) ? T(1) : T(0);
  }
  ValueLimits limits() const { return {low, high}; }
  bool operator==(const Clamp&) const = default;
};

}  // namespace qtape
