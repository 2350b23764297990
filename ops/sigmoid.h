// Sigmoid: y = 1 / (1 + e^-x).
#pragma once

#include "qtape/core/math.h"
#include "qtape/ops/families/elementwise.h"

namespace qtape {

struct Sigmoid : Elementwise<Sigmoid> {
  static constexpr std::string_view name = "Sigmoid";
  static constexpr std::string_view doc =
      "y = 1 / (1 + e^-x). Gradient: dx = dy y (1 - y). Keeps y.";
  static constexpr SlopeOf slope_of = SlopeOf::Output;

  static constexpr auto fields() { return std::tuple<>{}; }
  template <class T>
  T value(T x) const {
    return static_cast<T>(math::sigmoid(x));
  }
  template <class T>
  T slope(T y) const {
    return y * (T(1) - y);
  }
  bool operator==(const Sigmoid&) const = default;
};

}  // namespace qtape
