// Gelu: x times the standard normal distribution function of x.
#pragma once

#include "qtape/core/math.h"
#include "qtape/ops/families/elementwise.h"

namespace qtape {

/// Form in which Gelu computes the normal distribution function.
enum class GeluForm : uint8_t { Erf, Tanh };
template <>
inline constexpr auto enum_names<GeluForm> = std::array<std::string_view, 2>{"Erf", "Tanh"};

struct Gelu {
  static constexpr std::string_view name = "Gelu";
  static constexpr OpDocs docs{
      .summary = "x times the normal distribution function of x.",
      .formula = {"y = x (1 + erf(x / sqrt 2)) / 2.",
                  "With form Tanh the approximation y = x (1 + tanh(sqrt(2/pi) (x + 0.044715 "
                  "x^3))) / 2."},
      .operands = elementwise::operands,
      .gradient = "dx = dy times the exact derivative of the chosen form.",
      .saves = "x.",
      .edge_cases = {"NaN stays NaN.", "Negative infinity gives NaN; dx at infinities is NaN."},
      .source = "Hendrycks and Gimpel, arXiv 1606.08415."};
  static constexpr SlopeOf slope_of = SlopeOf::Operand;

  GeluForm form = GeluForm::Erf;

  static constexpr auto fields() {
    return std::tuple{field("form", &Gelu::form, "Erf (exact) or Tanh (approximation)")};
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
    const double gate = form == GeluForm::Erf ? math::erf(x * sqrt_half) : math::tanh(inner(x));
    return static_cast<T>(0.5 * x * (1.0 + gate));
  }
  template <class T>
  T slope(T operand) const {
    const double x = operand;
    if (form == GeluForm::Erf) {
      const double density = inverse_sqrt_two_pi * math::exp(-0.5 * x * x);
      return static_cast<T>(0.5 * (1.0 + math::erf(x * sqrt_half)) + x * density);
    }
    const double gate = math::tanh(inner(x));
    const double inner_slope = sqrt_two_over_pi * (1.0 + 3.0 * cubic * x * x);
    return static_cast<T>(0.5 * (1.0 + gate) + 0.5 * x * (1.0 - gate * gate) * inner_slope);
  }
  bool operator==(const Gelu&) const = default;

 private:
  static constexpr double sqrt_half = 0x1.6a09e667f3bcdp-1;
  static constexpr double inverse_sqrt_two_pi = 0x1.9884533d43651p-2;
  static constexpr double sqrt_two_over_pi = 0x1.9884533d43651p-1;
  static constexpr double cubic = 0.044715;
  static double inner(double x) { return sqrt_two_over_pi * (x + cubic * x * x * x); }
};

}  // namespace qtape
