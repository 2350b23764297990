// Base of ops that map each element by itself: supplies everything but the function and its
// slope.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

/// What the slope of an elementwise function is computed from; the planner keeps just that.
enum class SlopeOf : uint8_t { Operand, Output, Nothing };

/// `Op` provides `slope_of`, `value(double or float x)` and `slope(v)`, v being x or y as
/// `slope_of` says, and may provide `validate()`. `<op>.cpp` includes elementwise_kernels.h and
/// instantiates this base once.
template <class Op>
struct Elementwise {
  std::vector<Slot> slots() const { return {{.name = "x"}}; }
  TensorType infer(Inputs inputs) const;
  Keep keep() const {
    return {.operands = Op::slope_of == SlopeOf::Operand ? 1u : 0u,
            .output = Op::slope_of == SlopeOf::Output,
            .forward_in_place = true,
            .backward_in_place = true};
  }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const Elementwise&) const = default;

 private:
  const Op& op() const { return static_cast<const Op&>(*this); }
};

}  // namespace qtape
