// Upsample: repeats the positions of images.
#pragma once

#include "qtape/ops/core/op.h"
#include "qtape/ops/families/pool.h"

namespace qtape {

struct Upsample {
  static constexpr std::string_view name = "Upsample";
  static constexpr OpDocs docs{
      .summary = "Repeats each position along the spatial axes: nearest neighbours.",
      .formula =
          "y[n, i, j, c] = x[n, i / f, j / f, c], with quotients rounded down, where f is the "
          "factor of the axis.",
      .operands = {"x is [n, h, w, c] or [n, l, c], f32, f64 or integer codes: s8, u8, s16 or "
                   "u16.",
                   "y has f times the extent along each spatial axis."},
      .gradient = "dx = the sum of dy over the repeats, added in double in index order.",
      .saves = "Nothing.",
      .edge_cases = "None.",
      .source = "PyTorch's interpolate, mode nearest, with a whole scale_factor."};
  static constexpr Sign sign = Sign::Kept;

  Shape factor = {2, 2};

  static constexpr auto fields() {
    return std::tuple{field("factor", &Upsample::factor,
                            "repeats [h, w], or [l] of x [n, l, c], each at least 1")};
  }
  std::vector<Slot> slots() const { return {{.name = "x"}}; }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return {}; }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const Upsample&) const = default;
};

}  // namespace qtape
