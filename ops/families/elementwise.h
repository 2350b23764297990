// Ops that map each element by itself: everything but the function and its slope.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

/// What the slope of an elementwise function is computed from; the planner keeps just that.
enum class SlopeOf : uint8_t { Operand, Output, Nothing };

/// What `limits()` of an op says whose value is x limited to a range.
struct ValueLimits {
  double low = 0;
  double high = 0;
};

/// Facts about ops that map each element by itself.
namespace elementwise {

/// For OpDocs.
inline constexpr Facts operands = "x is f32 or f64 of any shape; y has its type.";

/// What an op with a slope of `slope_of` keeps.
constexpr Keep keep(SlopeOf slope_of) {
  return {.operands = slope_of == SlopeOf::Operand ? 1u : 0u,
          .output = slope_of == SlopeOf::Output,
          .forward_in_place = true,
          .backward_in_place = true};
}

}  // namespace elementwise

/// Base of elementwise ops without attributes. `Op` provides `slope_of`, `value(double or float
/// x)` and `slope(v)`, v being x or y as `slope_of` says. `<op>.cpp` includes
/// elementwise_kernels.h and instantiates this base once. An op with attributes has no base, as
/// it could not be initialised by names without a warning: it declares these functions itself
/// and defines them by those of elementwise_kernels.h (`leaky_relu.h`).
template <class Op>
struct Elementwise {
  std::vector<Slot> slots() const { return {{.name = "x"}}; }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return elementwise::keep(Op::slope_of); }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const Elementwise&) const = default;

 private:
  const Op& op() const { return static_cast<const Op&>(*this); }
};

}  // namespace qtape
