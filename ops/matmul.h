// MatMul: matrix product, batched over leading extents.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

struct MatMul {
  static constexpr std::string_view name = "MatMul";
  /// oneDNN sums in a different order on each instruction set.
  static constexpr Guarantee guarantee{.instruction_sets = false};
  static constexpr OpDocs docs{
      .summary = "The matrix product of the last two axes.",
      .formula = {"y = op(a) op(b), where op transposes the last two axes if requested.",
                  "f32 runs on oneDNN in tiles that do not depend on the thread count, f64 in "
                  "a plain loop."},
      .operands = {"a is f32 or f64 [..., m, k], b of the same dtype [k, n] or [..., k, n] "
                   "with the leading extents of a.",
                   "y is [..., m, n]."},
      .gradient = "da = dy op(b)^T, db = op(a)^T dy.",
      .saves = "Both operands.",
      .edge_cases = "transpose_a with leading extents that b lacks is refused.",
      .source = "Elementary."};

  bool transpose_a = false;
  bool transpose_b = false;

  static constexpr auto fields() {
    return std::tuple{field("transpose_a", &MatMul::transpose_a, "a is stored [..., k, m]"),
                      field("transpose_b", &MatMul::transpose_b, "b is stored [..., n, k]")};
  }
  std::vector<Slot> slots() const { return {{.name = "a"}, {.name = "b"}}; }
  TensorType infer(Inputs inputs) const;
  Keep keep() const;
  Footprint footprint(Inputs inputs) const;
  int64_t bf16_scratch(Inputs inputs) const;
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const MatMul&) const = default;
};

}  // namespace qtape
