// StopGradient: y = x, a constant for everything before it.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct StopGradient {
  static constexpr std::string_view name = "StopGradient";
  static constexpr std::string_view doc =
      "y = x. x of any dtype and shape. Gradient: none, what x depends on is not trained "
      "through this node. Keeps nothing; y shares the memory of x.";

  static constexpr auto fields() { return std::tuple<>{}; }
  std::vector<Slot> slots() const { return {{.name = "x", .differentiable = false}}; }
  TensorType infer(Inputs inputs) const { return inputs[0]; }
  Keep keep() const { return {.view = true}; }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding&) const { return {}; }
  bool operator==(const StopGradient&) const = default;
};

}  // namespace qtape
