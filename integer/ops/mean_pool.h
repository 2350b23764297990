// MeanPool of codes: means of codes over windows, rounded.
#pragma once

#include "qtape/integer/core/integer_op.h"
#include "qtape/ops/avg_pool.h"

namespace qtape::integer {

/// Means of codes over windows, rounded to codes of the same grid. It has the windows of
/// AvgPool; `count_include_pad` plays no part, since padding never counts.
struct MeanPool : qtape::AvgPool {
  static constexpr std::string_view name = "MeanPool";
  static constexpr std::string_view doc =
      "y = the mean of the codes of each window that lie in x, by channel, rounded to nearest, "
      "halves away from the code 0. Zero points are not subtracted, and y has the grid of x.";

  static constexpr auto fields() { return pool_fields<qtape::AvgPool>(); }
  IntegerValue infer(IntegerInputs inputs) const;
  void update(const IntegerBinding& binding, IntegerValue& y) const;
  IntegerKernel reference(const IntegerBinding& binding) const;
  IntegerKernel optimized(const IntegerBinding& binding) const;
  bool operator==(const MeanPool&) const = default;
};

}  // namespace qtape::integer
