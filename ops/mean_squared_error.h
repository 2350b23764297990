// MeanSquaredError: the loss of a regression.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct MeanSquaredError {
  static constexpr std::string_view name = "MeanSquaredError";
  static constexpr std::string_view doc =
      "y = the mean of (prediction - target)^2 over all n elements, a scalar. prediction and "
      "target f32 or f64 of one type, n >= 1. Added in double, in 16 interleaved partial "
      "sums. Gradients: dprediction = 2 dy (prediction - target) / n, dtarget its negative. "
      "Keeps both operands.";

  static constexpr auto fields() { return std::tuple<>{}; }
  std::vector<Slot> slots() const { return {{.name = "prediction"}, {.name = "target"}}; }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return {.operands = 0b11}; }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const MeanSquaredError&) const = default;
};

}  // namespace qtape
