// Embedding: rows of a table, by their numbers.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct Embedding {
  static constexpr std::string_view name = "Embedding";
  static constexpr OpDocs docs{
      .summary = "Rows of a table, by their numbers.",
      .formula = "y[..., j] = table[indices[...], j].",
      .operands = {"table is f32 or f64 [vocabulary, width], both >= 1.",
                   "indices is s32 in [0, vocabulary), of up to 7 axes.",
                   "y has the shape of indices and the width behind it."},
      .gradient =
          {"dtable[v] = the sum of dy over the places whose index is v, added in double "
           "in the order of the places.",
           "None for indices."},
      .saves = "indices.",
      .edge_cases =
          "An index outside is reported as a fault; its row is 0 and gives no gradient.",
      .source = "PyTorch's embedding."};

  static constexpr auto fields() { return std::tuple<>{}; }
  std::vector<Slot> slots() const {
    return {{.name = "table"}, {.name = "indices", .differentiable = false}};
  }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return {.operands = 0b10}; }
  /// Places by index: where the places of each index begin, and their numbers.
  Footprint footprint(Inputs inputs) const {
    const int64_t numbers = inputs[0].shape[0] + 1 + inputs[1].elements();
    return {.scratch = static_cast<int64_t>(sizeof(int64_t)) * numbers};
  }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const Embedding&) const = default;
};

}  // namespace qtape
