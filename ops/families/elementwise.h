// Elementwise ops with one operand: everything except the function and its slope.
#pragma once

#include "qtape/ops/core/op.h"

namespace qtape {

/// Value from which the slope of an elementwise function is computed; the planner keeps only
/// it.
enum class SlopeOf : uint8_t { Operand, Output, Nothing };

/// Range returned by `limits()` of an op whose value is x clamped to that range.
struct ValueLimits {
  double low = 0;
  double high = 0;
};

/// Facts about elementwise ops.
namespace elementwise {

/// For OpDocs.
inline constexpr Facts operands = "x is f32 or f64 of any shape; y has its type.";

/// Values kept by an op with a slope of `slope_of`.
constexpr Keep keep(SlopeOf slope_of) {
  return {.operands = slope_of == SlopeOf::Operand ? 1u : 0u,
          .output = slope_of == SlopeOf::Output,
          .forward_in_place = true,
          .backward_in_place = true};
}

}  // namespace elementwise

/// An elementwise op whose formula selects one of several pieces: it declares
/// `static constexpr bool piecewise = true`. Where its slope is 0, dx is 0 for every dy.
template <class Op>
concept Piecewise = requires {
  requires Op::piecewise;
};

/// Base of elementwise ops without attributes. `Op` provides `slope_of`, `value(x)` for float
/// and double, and `slope(v)`, where v is x or y according to `slope_of`. `<op>.cpp` includes
/// elementwise_kernels.h and instantiates this base once. An op with attributes has no base,
/// because designated initializers would cause a warning. It declares these functions itself
/// and defines them by those of elementwise_kernels.h (see `leaky_relu.h`).
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
