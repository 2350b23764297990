// Interpolate: images of another size, linear between their positions.
#pragma once

#include <optional>

#include "qtape/ops/core/op.h"

namespace qtape {

struct AxisTerms;

struct Interpolate {
  static constexpr std::string_view name = "Interpolate";
  static constexpr OpDocs docs{
      .summary = "Resizes images: linear interpolation along the spatial axes.",
      .formula =
          {"y[n, i, j, c] is x at the position ((step i + offset) / divisor, the same of j).",
           "Positions outside of x are moved to its border.",
           "Between two positions x is linear; between four, bilinear: the sum of x at these "
           "with whole weights, divided by the product of the divisors.",
           "Added in double in index order, and divided in double; weights of 0 are left out."},
      .operands = {"x is [n, h, w, c] or [n, l, c], f32 or f64.",
                   "y has `extents` along the spatial axes."},
      .gradient =
          "dx = the sum of dy times its weight over the positions that use the element, "
          "added and divided as y is.",
      .saves = "Nothing.",
      .edge_cases = "Refused: x without elements along a spatial axis.",
      .source =
          "PyTorch's interpolate, modes linear and bilinear: step 2 in, offset in - out "
          "and divisor 2 out; with align_corners step in - 1, offset 0, divisor out - 1."};
  static constexpr Sign sign = Sign::Kept;

  std::vector<int64_t> extents = {};
  std::vector<int64_t> step = {};
  std::vector<int64_t> offset = {};
  std::vector<int64_t> divisor = {};

  static constexpr auto fields() {
    return std::tuple{
        field("extents", &Interpolate::extents, "of y: [h, w], or [l] of x [n, l, c]"),
        field("step", &Interpolate::step, "of positions by axis, at least 0, in parts of x's"),
        field("offset", &Interpolate::offset, "of position 0 by axis, in parts of x's"),
        field("divisor", &Interpolate::divisor, "parts of a position by axis, at least 1")};
  }
  std::vector<Slot> slots() const { return {{.name = "x"}}; }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return {}; }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  /// Shape of y. Throws GraphError if the attributes do not fit x.
  Shape resized(const Shape& x) const;
  /// Sum of the weights of each element; nullopt if it exceeds `most`.
  std::optional<int64_t> common_divisor(int64_t most) const;
  /// Terms along spatial axis `k` of extent `in`.
  AxisTerms terms(size_t k, int64_t in) const;
  bool operator==(const Interpolate&) const = default;
};

}  // namespace qtape
