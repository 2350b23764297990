// Elu: y = x where x > 0, else an exponential curve; Selu and Celu are settings of it.
#pragma once

#include "qtape/core/math.h"
#include "qtape/ops/families/elementwise.h"

namespace qtape {

struct Elu {
  static constexpr std::string_view name = "Elu";
  static constexpr OpDocs docs{
      .summary = "Keeps positive elements and bends negative ones towards a constant.",
      .formula = {"y = scale x where x > 0, else scale alpha (e^(input_scale x) - 1).",
                  "PyTorch's ELU is alpha; SELU is alpha = 1.6732632423543772 and scale = "
                  "1.0507009873554805; CELU(a) is alpha = a and input_scale = 1 / a."},
      .operands = elementwise::operands,
      .gradient =
          "dx = dy scale where x > 0, else dy scale alpha input_scale e^(input_scale x).",
      .saves = "x.",
      .edge_cases = {"NaN stays NaN.", "With input_scale 0, negative infinity gives NaN."},
      .source = "Clevert et al., arXiv 1511.07289; Klambauer et al., arXiv 1706.02515."};
  static constexpr SlopeOf slope_of = SlopeOf::Operand;

  double alpha = 1;
  double scale = 1;
  double input_scale = 1;

  static constexpr auto fields() {
    return std::tuple{field("alpha", &Elu::alpha, "limit of negative elements, finite"),
                      field("scale", &Elu::scale, "factor of the result, finite"),
                      field("input_scale", &Elu::input_scale,
                            "factor in the exponent, finite, not negative")};
  }
  std::vector<Slot> slots() const { return {{.name = "x"}}; }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return elementwise::keep(slope_of); }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  template <class T>
  T value(T operand) const {
    const double x = operand;
    const double below = alpha * math::expm1(input_scale * (x > 0.0 ? 0.0 : x));
    return static_cast<T>(scale * (x > 0.0 ? x : below));
  }
  template <class T>
  T slope(T operand) const {
    const double x = operand;
    const double below = alpha * input_scale * math::exp(input_scale * (x > 0.0 ? 0.0 : x));
    return static_cast<T>(scale * (x > 0.0 ? 1.0 : below));
  }
  bool operator==(const Elu&) const = default;
};

}  // namespace qtape
