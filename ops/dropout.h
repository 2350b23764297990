// Dropout: sets random elements to 0 during training.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct Dropout {
  static constexpr std::string_view name = "Dropout";
  static constexpr OpDocs docs{
      .summary = "Sets random elements to 0 during training.",
      .formula = {"In modes that train, y = x / (1 - rate) with probability 1 - rate and 0 "
                  "otherwise, else y = x.",
                  "The random numbers depend only on the seeds of tape and op, the node, the "
                  "step and the element."},
      .operands = "x is f32 or f64 of any shape; y has its type.",
      .gradient = "dx = dy / (1 - rate) where x was kept, else 0.",
      .saves = "One bit per element.",
      .edge_cases = "In modes that do not train: dx = dy.",
      .source = "Srivastava et al., JMLR 15 (2014)."};
  static constexpr Sign sign = Sign::Kept;

  double rate = 0.5;
  int64_t seed = 0;

  static constexpr auto fields() {
    return std::tuple{field("rate", &Dropout::rate, "probability of a 0, in [0, 1)"),
                      field("seed", &Dropout::seed, "combined with the seed of the tape")};
  }
  std::vector<Slot> slots() const { return {{.name = "x"}}; }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return {.forward_in_place = true, .backward_in_place = true}; }
  Footprint footprint(Inputs inputs) const {
    return {.saved = (inputs[0].elements() + 63) / 64 * static_cast<int64_t>(sizeof(uint64_t))};
  }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const Dropout&) const = default;
};

}  // namespace qtape
