// Exp: y = e^x.
#pragma once

#include "qtape/core/math.h"
#include "qtape/ops/families/elementwise.h"

namespace qtape {

struct Exp : Elementwise<Exp> {
  static constexpr std::string_view name = "Exp";
  static constexpr std::string_view doc = "y = e^x. Gradient: dx = dy y. Keeps y.";
  static constexpr SlopeOf slope_of = SlopeOf::Output;

  static constexpr auto fields() { return std::tuple<>{}; }
  template <class T>
  T value(T x) const {
    return static_cast<T>(math::exp(x));
  }
  template <class T>
  T slope(T y) const {
    return y;
  }
  bool operator==(const Exp&) const = default;
};

}  // namespace qtape
