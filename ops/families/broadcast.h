// Base of ops that combine two operands element by element, repeated to a common shape.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

/// Facts about ops of two operands.
namespace broadcast {

/// OpDocs: what operands may be.
inline constexpr Facts operands = {
    "a and b are f32 or f64, of one dtype.",
    "Their shapes broadcast as in NumPy: aligned at the last axis, an extent of 1 or a missing "
    "one is repeated.",
    "y has the common shape."};
/// OpDocs: how gradients of repeated operands are summed.
inline constexpr const char* summed =
    "Each is summed in double and in a fixed order over the axes along which the operand is "
    "repeated.";

}  // namespace broadcast

/// `Op` provides `value(a, b)`, `gradient_a(dy, a, b)` and `gradient_b(dy, a, b)`, all static,
/// and says in `reads_operands` whether the gradients read a and b; when not, `gradient_a` is
/// dy.
/// `<op>.cpp` includes broadcast_kernels.h and instantiates this base once.
template <class Op>
struct Broadcast {
  std::vector<Slot> slots() const { return {{.name = "a"}, {.name = "b"}}; }
  TensorType infer(Inputs inputs) const;
  Keep keep() const {
    return {.operands = Op::reads_operands ? 0b11u : 0u,
            .forward_in_place = true,
            .backward_in_place = !Op::reads_operands};
  }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const Broadcast&) const = default;
};

}  // namespace qtape
