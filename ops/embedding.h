// Embedding: looks up rows of a table by index.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct Embedding {
  static constexpr std::string_view name = "Embedding";
  static constexpr OpDocs docs{
      .summary = "Looks up rows of a table by index.",
      .formula = "y[..., j] = table[indices[...], j].",
      .operands = {"table is f32 or f64 [vocabulary, width], both >= 1.",
                   "indices is s32 in [0, vocabulary), of up to 7 axes.",
                   "y has the shape of indices followed by width."},
      .gradient = {"dtable[v] = the sum of dy over the positions whose index is v, added in "
                   "double in order of positions.",
                   "None for indices."},
      .saves = "indices.",
      .edge_cases =
          "An index out of range is reported as a fault; its row of y is 0 and contributes no "
          "gradient.",
      .source = "PyTorch's embedding."};

  static constexpr auto fields() { return std::tuple<>{}; }
  std::vector<Slot> slots() const {
    return {{.name = "table"}, {.name = "indices", .differentiable = false}};
  }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return {.operands = 0b10}; }
  /// Scratch of a sort by index: the start of each index, then the positions.
  Footprint footprint(Inputs inputs) const {
    const int64_t numbers = inputs[0].shape[0] + 1 + inputs[1].elements();
    return {.scratch = static_cast<int64_t>(sizeof(int64_t)) * numbers};
  }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const Embedding&) const = default;
};

}  // namespace qtape
