// Reshape: the same elements under another shape.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct Reshape {
  static constexpr std::string_view name = "Reshape";
  static constexpr std::string_view doc =
      "y = x with another shape of as many elements, in row-major order. x of any dtype and "
      "shape; one extent of `shape` may be -1 and is what the others leave. Gradient: dx = "
      "dy. Keeps nothing; y shares the memory of x.";

  std::vector<int64_t> shape = {};

  static constexpr auto fields() {
    return std::tuple{field("shape", &Reshape::shape, "extents of y, >= 0; at most one is -1")};
  }
  std::vector<Slot> slots() const { return {{.name = "x"}}; }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return {.backward_in_place = true, .view = true}; }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const Reshape&) const = default;
};

}  // namespace qtape
