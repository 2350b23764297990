// ArgMax: index of the largest element along an axis.
#pragma once

#include "qtape/integer/core/integer_op.h"
#include "qtape/ops/arg_max.h"

namespace qtape::integer {

/// Indices of the largest codes, or of the largest values of accumulators.
struct ArgMax : qtape::ArgMax {
  static constexpr std::string_view doc =
      "y = the smallest i for which x[.., i, ..] is the largest element along `axis`, in s32. "
      "Codes are compared as they are, accumulators as float(x) s[c], in f32. y has scale 1.";

  static constexpr auto fields() { return qtape::ArgMax::fields(); }
  IntegerValue infer(IntegerInputs inputs) const;
  void update(const IntegerBinding&, IntegerValue&) const {}
  IntegerKernel reference(const IntegerBinding& binding) const;
  IntegerKernel optimized(const IntegerBinding& binding) const;
  bool operator==(const ArgMax&) const = default;
};

}  // namespace qtape::integer
