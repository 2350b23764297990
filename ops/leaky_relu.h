// LeakyRelu: y = x where x >= 0, else slope x.
#pragma once

#include "qtape/ops/families/elementwise.h"

namespace qtape {

struct LeakyRelu {
  static constexpr std::string_view name = "LeakyRelu";
  static constexpr OpDocs docs{
      .summary = "Keeps non-negative elements and scales negative ones.",
      .formula = "y = x where x >= 0, else slope x.",
      .operands = elementwise::operands,
      .gradient = "dx = dy, or slope dy where x < 0.",
      .saves = "x.",
      .edge_cases = "NaN stays NaN.",
      .source = "Maas et al., ICML 2013 workshops."};
  static constexpr SlopeOf slope_of = SlopeOf::Operand;

  double negative_slope = 0.01;

  static constexpr auto fields() {
    return std::tuple{
        field("negative_slope", &LeakyRelu::negative_slope, "factor below zero, finite")};
  }
  std::vector<Slot> slots() const { return {{.name = "x"}}; }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return elementwise::keep(slope_of); }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  template <class T>
  T value(T x) const {
    return x < T(0) ? x * static_cast<T>(negative_slope) : x;
  }
  template <class T>
  T slope(T x) const {
    return x < T(0) ? static_cast<T>(negative_slope) : T(1);
  }
  bool operator==(const LeakyRelu&) const = default;
};

}  // namespace qtape
