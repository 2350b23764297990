// StopGradient: y = x, without a gradient to x.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct StopGradient {
  static constexpr std::string_view name = "StopGradient";
  static constexpr OpDocs docs{.summary = "Passes values forward and no gradient backward.",
                               .formula = "y = x.",
                               .operands = "x has any dtype and shape; y has its type.",
                               .gradient = "None: no gradient flows through this node.",
                               .saves = "Nothing; y shares the memory of x.",
                               .edge_cases = "None.",
                               .source = "JAX and TensorFlow, stop_gradient."};

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
