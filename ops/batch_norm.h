// BatchNorm: normalizes each channel over the batch.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct BatchNorm {
  static constexpr std::string_view name = "BatchNorm";
  static constexpr WholeBatch whole_batch = WholeBatch::Always;
  static constexpr OpDocs docs{
      .summary = "Normalizes each channel over all axes except the last.",
      .formula =
          {"y = gamma (x - m) / sqrt(v + eps) + beta, in double, rounded once.",
           "In modes with batch statistics, m and v are the mean and variance of the n "
           "elements of the channel in x, else the running statistics.",
           "Batch statistics update the running ones: running = (1 - momentum) running + "
           "momentum batch, with the unbiased variance v n / (n - 1).",
           "Differences from the first row, or from the running mean if the batch has shards, "
           "and their squares are summed in double, in an order that depends only on the "
           "extents and the shards."},
      .operands = {"x is f32 or f64 [..., c] of rank >= 2; y has its type.",
                   "All others are [c] of x's dtype."},
      .gradient = {"With h = (x - m) / sqrt(v + eps): dbeta = sum dy, dgamma = sum dy h.",
                   "dx = gamma / sqrt(v + eps) (dy - mean dy - h mean(dy h)) with batch "
                   "statistics, else gamma / sqrt(v + eps) dy."},
      .saves = "Four f64 for each channel; backward also reads x.",
      .edge_cases =
          {"With batch statistics, fewer than 2 elements per channel stop the step with an "
           "error; running statistics accept any number.",
           "If NaN or infinities make the statistics of a channel not finite, its running "
           "statistics do not change.",
           "gamma = 0 gives y = beta for finite x and statistics."},
      .source = "Ioffe and Szegedy, arXiv 1502.03167; momentum as in PyTorch."};

  double momentum = 0.1;
  double eps = 1e-5;

  static constexpr auto fields() {
    return std::tuple{field("momentum", &BatchNorm::momentum,
                            "weight of a batch in the running statistics, in [0, 1]"),
                      field("eps", &BatchNorm::eps, "added to variances, above 0")};
  }
  std::vector<Slot> slots() const {
    return {{.name = "x"},
            {.name = "gamma"},
            {.name = "beta"},
            {.name = "running_mean", .differentiable = false, .access = Access::ReadWrite},
            {.name = "running_var", .differentiable = false, .access = Access::ReadWrite}};
  }
  TensorType infer(Inputs inputs) const;
  Keep keep() const {
    return {.operands = 1, .forward_in_place = true, .backward_in_place = true};
  }
  Footprint footprint(Inputs inputs) const;
  int64_t shards_scratch(Inputs inputs, const Shards& shards) const;
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const BatchNorm&) const = default;
};

}  // namespace qtape
