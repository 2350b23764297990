// SoftmaxCrossEntropy: classification loss with integer labels.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct SoftmaxCrossEntropy {
  static constexpr std::string_view name = "SoftmaxCrossEntropy";
  static constexpr BatchReduction batch_reduction = BatchReduction::Mean;
  static constexpr OpDocs docs{
      .summary = "Cross-entropy classification loss from logits and labels.",
      .formula = {"y = mean over rows of -sum_j t_j log p_j, p = softmax(logits).",
                  "t_j = (1 - e) [j = label] + e / classes, where e is label_smoothing."},
      .operands = {"logits is f32 or f64 [n, classes], n and classes >= 1.",
                   "labels is s32 [n] in [0, classes).", "y is a scalar."},
      .gradient = {"dlogits = dy (p - t) / n.", "None for labels."},
      .saves = "p and labels.",
      .edge_cases = "A label out of range is reported as a fault and its row is ignored.",
      .source = "Szegedy et al., arXiv 1512.00567, section 7."};

  double label_smoothing = 0.0;

  static constexpr auto fields() {
    return std::tuple{field("label_smoothing", &SoftmaxCrossEntropy::label_smoothing,
                            "weight of the uniform distribution, in [0, 1)")};
  }
  std::vector<Slot> slots() const {
    return {{.name = "logits"}, {.name = "labels", .differentiable = false}};
  }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return {.operands = 0b10}; }
  Footprint footprint(Inputs inputs) const {
    const int64_t sums = 2 * static_cast<int64_t>(sizeof(double)) * inputs[1].elements();
    return {.saved = inputs[0].bytes(), .scratch = sums};
  }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const SoftmaxCrossEntropy&) const = default;
};

}  // namespace qtape
