// MeanSquaredError: regression loss.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct MeanSquaredError {
  static constexpr std::string_view name = "MeanSquaredError";
  static constexpr BatchReduction batch_reduction = BatchReduction::Mean;
  static constexpr OpDocs docs{
      .summary = "Mean squared error, a regression loss.",
      .formula = {"y = the mean of (prediction - target)^2 over all n elements.",
                  "Added in double, in 16 interleaved partial sums."},
      .operands = {"prediction and target are f32 or f64 of the same type.", "y is a scalar."},
      .gradient = {"dprediction = 2 dy (prediction - target) / n.", "dtarget is its negative."},
      .saves = "Both operands.",
      .edge_cases = "n = 0 is refused.",
      .source = "Elementary."};

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
