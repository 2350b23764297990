// Interpolation of codes: sums with whole weights.
#pragma once

#include "qtape/integer/core/integer_op.h"
#include "qtape/ops/interpolate.h"

namespace qtape::integer {

/// Weighted sums of codes; the following requantization divides.
struct Interpolate : qtape::Interpolate {
  static constexpr std::string_view doc =
      "y = sums of x - zp at up to four positions, times their weights, in s32 if they always "
      "fit, else in s64. y represents x between these: its scale is that of x divided by the "
      "product of the divisors, which is the sum of the weights.";

  static constexpr auto fields() { return qtape::Interpolate::fields(); }
  IntegerValue infer(IntegerInputs inputs) const;
  void update(const IntegerBinding& binding, IntegerValue& y) const;
  IntegerKernel reference(const IntegerBinding& binding) const;
  IntegerKernel optimized(const IntegerBinding& binding) const;
  bool operator==(const Interpolate&) const = default;
};

}  // namespace qtape::integer
