// Softplus: y = log(1 + e^x).
#pragma once

#include "qtape/core/math.h"
#include "qtape/ops/families/elementwise.h"

namespace qtape {

struct Softplus : Elementwise<Softplus> {
  static constexpr std::string_view name = "Softplus";
  static constexpr OpDocs docs{.summary = "A smooth form of Relu.",
                               .formula = {"y = log(1 + e^x), computed as max(x, 0) + log(1 + "
                                           "e^-|x|), which never overflows."},
                               .operands = elementwise::operands,
                               .gradient = "dx = dy / (1 + e^-x).",
                               .saves = "x.",
                               .edge_cases = "NaN stays NaN.",
                               .source = "PyTorch's softplus with beta = 1 and no threshold."};
  static constexpr Sign sign = Sign::NeverNegative;
  static constexpr SlopeOf slope_of = SlopeOf::Operand;

  static constexpr auto fields() { return std::tuple<>{}; }
  template <class T>
  T value(T operand) const {
    const double x = operand;
    return static_cast<T>((x > 0.0 ? x : 0.0) + math::log1p(math::exp(-std::fabs(x))));
  }
  template <class T>
  T slope(T x) const {
    return static_cast<T>(math::sigmoid(x));
  }
  bool operator==(const Softplus&) const = default;
};

}  // namespace qtape
