// Clamp: y = min(max(x, low), high).
#pragma once

#include <cmath>

#include "qtape/ops/core/elementwise.h"

namespace qtape {

struct Clamp : Elementwise<Clamp> {
  static constexpr std::string_view name = "Clamp";
  static constexpr std::string_view doc =
      "y = min(max(x, low), high); NaN stays NaN. Gradient: dx = dy where low <= x <= "
      "high. Keeps x.";
  static constexpr SlopeOf slope_of = SlopeOf::Operand;

  double low = 0.0;
  double high = 1.0;

  static constexpr auto fields() {
    return std::tuple{field("low", &Clamp::low, "smallest output, finite"),
                      field("high", &Clamp::high, "largest output, finite, at least low")};
  }
  void validate() const {
    check(std::isfinite(low) && std::isfinite(high),
          "low and high must be finite, got {} and {}", low, high);
    check(low <= high, "low must be at most high, got {} and {}", low, high);
  }
  template <class T>
  T value(T x) const {
    const T lifted = x < static_cast<T>(low) ? static_cast<T>(low) : x;
    return lifted > static_cast<T>(high) ? static_cast<T>(high) : lifted;
  }
  template <class T>
  T slope(T x) const {
    return x >= static_cast<T>(low) && x <= static_cast<T>(high) ? T(1) : T(0);
  }
  bool operator==(const Clamp&) const = default;
};

}  // namespace qtape
