// LogSoftmax: the logarithm of Softmax.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct LogSoftmax {
  static constexpr std::string_view name = "LogSoftmax";
  static constexpr OpDocs docs{.summary = "The logarithm of Softmax.",
                               .formula = {"y = x - m - log(sum(exp(x - m))) along `axis`, "
                                           "where m is the largest x of the line.",
                                           "Computed in double, in a fixed order."},
                               .operands = "x is f32 or f64 of rank >= 1; y has its type.",
                               .gradient = "dx = dy - exp(y) sum(dy).",
                               .saves = "y.",
                               .edge_cases = "NaN makes its line NaN.",
                               .source = "Elementary."};

  int axis = -1;

  static constexpr auto fields() {
    return std::tuple{field("axis", &LogSoftmax::axis, "in [-rank, rank)")};
  }
  std::vector<Slot> slots() const { return {{.name = "x"}}; }
  TensorType infer(Inputs inputs) const;
  bool mixes_samples(Inputs inputs) const {
    return axis == 0 || axis + static_cast<int>(inputs[0].shape.rank()) == 0;
  }
  Keep keep() const {
    return {.output = true, .forward_in_place = true, .backward_in_place = true};
  }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const LogSoftmax&) const = default;
};

}  // namespace qtape
