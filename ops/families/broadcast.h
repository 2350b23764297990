// Base of elementwise ops with two operands that broadcast to a common shape.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

/// Facts about broadcast ops.
namespace broadcast {

/// OpDocs: types and shapes of the operands.
inline constexpr Facts operands = {"a and b are f32 or f64 of the same dtype.",
                                   "Their shapes broadcast as in NumPy: aligned at the last "
                                   "axis, an extent that is 1 or missing is repeated.",
                                   "y has the common shape."};
/// OpDocs: summation of the gradients of repeated operands.
inline constexpr const char* summed =
    "Each is summed in double, in a fixed order, over the axes along which the operand is "
    "repeated.";

}  // namespace broadcast

/// `Op` provides the static functions `value(a, b)`, `gradient_a(dy, a, b)` and `gradient_b(dy,
/// a, b)`. `reads_operands` states if the gradients read a and b; if not, `gradient_a` must be
/// dy, and `gradient_b` is constexpr, so that it is known whether it is dy as well. `<op>.cpp`
/// includes broadcast_kernels.h and instantiates this base once.
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
