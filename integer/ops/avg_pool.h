// AvgPool of codes: sums over windows.
#pragma once

#include "qtape/integer/core/integer_op.h"
#include "qtape/ops/avg_pool.h"

namespace qtape::integer {

/// Sums of codes over windows; the following requantization divides.
struct AvgPool : qtape::AvgPool {
  static constexpr std::string_view doc =
      "y = sums of x - zp over windows, in s32 if they always fit, else in s64; padding is 0. "
      "y represents means: each sum is multiplied by L / m, where m is its divisor and L the "
      "least common multiple of all m, and the scale is that of x divided by L.";

  static constexpr auto fields() { return qtape::AvgPool::fields(); }
  IntegerValue infer(IntegerInputs inputs) const;
  void update(const IntegerBinding& binding, IntegerValue& y) const;
  IntegerKernel reference(const IntegerBinding& binding) const;
  IntegerKernel optimized(const IntegerBinding& binding) const;
  /// L for codes of shape `x`, which `infer` takes.
  int64_t common_multiple(const Shape& x) const;
  bool operator==(const AvgPool&) const = default;
};

}  // namespace qtape::integer
