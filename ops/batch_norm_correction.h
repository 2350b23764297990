// BatchNormCorrection: what a product with folded weights lacks to a batch norm in training.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct BatchNormCorrection {
  static constexpr std::string_view name = "BatchNormCorrection";
  static constexpr OpDocs docs{
      .summary =
          "Makes the output of a layer with a batch norm folded into its weights that of the "
          "batch norm in training, and passes it on in evaluation.",
      .formula =
          {"In modes without batch statistics y = v, bit for bit.",
           "Else z = (v - bias) / r is the output without the norm, and y is its batch norm: "
           "gamma sign(r) (v - mean v) / sqrt(var v + eps r^2) + beta.",
           "The running statistics move as BatchNorm's, by mean z = (mean v - bias) / r and "
           "var z = var v / r^2. Sums are BatchNorm's."},
      .operands =
          {"v is f32 or f64 [..., c] of rank >= 2; y has its type.",
           "All others are [c] of v's dtype: r is FoldFactor's, which scales the weights; bias "
           "is what was added to the product.",
           "Nodes before it may read the running statistics: as the step before left them."},
      .gradient =
          {"With s = sqrt(var v + eps r^2), g = gamma sign(r), h = (v - mean v) / s: dv = g / "
           "s (dy - mean dy - h mean(dy h)), or dy without batch statistics.",
           "dgamma = sign(r) sum dy h, dbeta = sum dy, dr = -g eps r / s^2 sum dy h; without "
           "batch statistics 0.",
           "None for bias: it cancels."},
      .saves = "Four f64 for each channel; backward also reads v.",
      .edge_cases =
          {"r = 0, which is gamma = 0: y = beta, the running statistics stay, dv, dgamma and "
           "dr are 0. So the channel begins to learn again without batch statistics alone.",
           "Fewer than 2 elements of a channel and statistics that are not finite: as in "
           "BatchNorm."},
      .source =
          "Jacob et al., arXiv 1712.05877, section 3.2, and Krishnamoorthi, arXiv "
          "1806.08342, section 3.2.2; made exact."};

  double momentum = 0.1;
  double eps = 1e-5;

  static constexpr auto fields() {
    return std::tuple{field("momentum", &BatchNormCorrection::momentum,
                            "weight of a batch in the running statistics, in [0, 1]"),
                      field("eps", &BatchNormCorrection::eps, "that of FoldFactor, above 0")};
  }
  std::vector<Slot> slots() const {
    return {{.name = "v"},
            {.name = "gamma"},
            {.name = "beta"},
            {.name = "r"},
            {.name = "bias", .differentiable = false},
            {.name = "running_mean",
             .differentiable = false,
             .access = Access::ReadWrite,
             .after_readers = true},
            {.name = "running_var",
             .differentiable = false,
             .access = Access::ReadWrite,
             .after_readers = true}};
  }
  TensorType infer(Inputs inputs) const;
  Keep keep() const {
    return {.operands = 1, .forward_in_place = true, .backward_in_place = true};
  }
  Footprint footprint(Inputs inputs) const;
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const BatchNormCorrection&) const = default;
};

}  // namespace qtape
