// Affine: y = factor x + offset.
#pragma once

#include "qtape/ops/families/elementwise.h"

namespace qtape {

struct Affine {
  static constexpr std::string_view name = "Affine";
  static constexpr OpDocs docs{
      .summary = "Multiplies each element by a number and adds another.",
      .formula = {"y = factor x + offset.",
                  "factor and offset are rounded to the dtype of x; the product is rounded "
                  "before the sum."},
      .operands = elementwise::operands,
      .gradient = "dx = factor dy.",
      .saves = "Nothing.",
      .edge_cases = {"NaN stays NaN.", "A factor or an offset that is not finite is refused."},
      .source = "Elementary."};
  static constexpr SlopeOf slope_of = SlopeOf::Nothing;

  double factor = 1;
  double offset = 0;

  static constexpr auto fields() {
    return std::tuple{field("factor", &Affine::factor, "finite"),
                      field("offset", &Affine::offset, "finite")};
  }
  std::vector<Slot> slots() const { return {{.name = "x"}}; }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return elementwise::keep(slope_of); }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  template <class T>
  T value(T x) const {
    return static_cast<T>(factor) * x + static_cast<T>(offset);
  }
  template <class T>
  T slope(T) const {
    return static_cast<T>(factor);
  }
  bool operator==(const Affine&) const = default;
};

}  // namespace qtape
