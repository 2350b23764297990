// BatchNormCorrection: corrects a product with folded weights to the batch norm in training.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct BatchNormCorrection {
  static constexpr std::string_view name = "BatchNormCorrection";
  static constexpr WholeBatch whole_batch = WholeBatch::Always;
  static constexpr OpDocs docs{
      .summary =
          "Corrects the output of a layer whose weights include a folded batch norm to that of "
          "the batch norm in training. The identity in evaluation.",
      .formula =
          {"In modes without batch statistics y = v, bit for bit.",
           "Else z = (v - bias) / r is the output without the norm, and y is its batch norm: "
           "gamma sign(r) (v - mean v) / sqrt(var v + eps r^2) + beta.",
           "The running statistics are updated as in BatchNorm, by mean z = (mean v - bias) / "
           "r and var z = var v / r^2. Sums as in BatchNorm."},
      .operands =
          {"v is f32 or f64 [..., c] of rank >= 2; y has its type.",
           "All others are [c] of v's dtype: r is the output of FoldFactor that scales the "
           "weights; bias was added to the product.",
           "Earlier nodes may read the running statistics, as the previous step left them."},
      .gradient =
          {"With s = sqrt(var v + eps r^2), g = gamma sign(r), h = (v - mean v) / s: dv = g / "
           "s (dy - mean dy - h mean(dy h)), or dy without batch statistics.",
           "dgamma = sign(r) sum dy h, dbeta = sum dy, dr = -g eps r / s^2 sum dy h; without "
           "batch statistics 0.",
           "None for bias: it cancels."},
      .saves = "Four f64 for each channel; backward also reads v.",
      .edge_cases =
          {"r = 0 (gamma = 0): y = beta, the running statistics do not change, and dv, dgamma "
           "and dr are 0. Such a channel learns only without batch statistics.",
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
                      field("eps", &BatchNormCorrection::eps, "eps of FoldFactor, above 0")};
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
  int64_t shards_scratch(Inputs inputs, const Shards& shards) const;
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const BatchNormCorrection&) const = default;
};

}  // namespace qtape
