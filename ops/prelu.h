// PRelu: y = x where x >= 0, else slope x, with a slope that is learned.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct PRelu {
  static constexpr std::string_view name = "PRelu";
  static constexpr OpDocs docs{
      .summary = "Keeps non-negative elements and scales negative ones by a learned slope.",
      .formula = "y = x where x >= 0, else slope x.",
      .operands = {"x is f32 or f64 of rank >= 1, slope of the same dtype.",
                   "slope is [1], or [n] for the last extent n of x: one for each channel.",
                   "y has the shape of x."},
      .gradient = {"dx = dy, or slope dy where x < 0.",
                   "dslope = the sum of x dy where x < 0, over all elements that the slope "
                   "scales, in double and in a fixed order."},
      .saves = "Both operands.",
      .edge_cases = "NaN stays NaN.",
      .source = "He et al., arXiv 1502.01852."};

  static constexpr auto fields() { return std::tuple<>{}; }
  std::vector<Slot> slots() const { return {{.name = "x"}, {.name = "slope"}}; }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return {.operands = 0b11, .forward_in_place = true}; }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;

  static constexpr bool reads_operands = true;
  template <class T>
  static T value(T x, T slope) {
    return x < T(0) ? x * slope : x;
  }
  template <class T>
  static T gradient_a(T dy, T x, T slope) {
    return x < T(0) ? dy * slope : dy;
  }
  template <class T>
  static T gradient_b(T dy, T x, T) {
    return x < T(0) ? dy * x : T(0);
  }
  bool operator==(const PRelu&) const = default;
};

}  // namespace qtape
