// Softmax of codes in fixed point.
#pragma once

#include <array>

#include "qtape/integer/core/integer_op.h"

namespace qtape::integer {

/// exp(beta s d) in Q0.31, for the differences d = 0, -1, .. -255 of codes of scale s from the
/// largest of their row. Entries of differences too small for the arithmetic are 0.
using Exponentials = std::array<int32_t, 256>;

/// Softmax of rows of codes, as TFLite's kernels for microcontrollers compute it.
struct Softmax {
  static constexpr std::string_view name = "Softmax";
  static constexpr std::string_view doc =
      "y = exp(beta s d) divided by its sum over the last axis, in fixed point, where d is a "
      "code of x less the largest of its row and s the scale of x. x codes s8; y codes s8 of "
      "scale 1/256 and zero point -128.";

  /// Largest extent of the last axis, for which the sum of exponentials fits s32.
  static constexpr int64_t max_terms = 4095;

  double beta = 1;

  static constexpr auto fields() {
    return std::tuple{field("beta", &Softmax::beta, "factor of x, positive and finite")};
  }
  IntegerValue infer(IntegerInputs inputs) const;
  void update(const IntegerBinding&, IntegerValue&) const {}
  IntegerKernel reference(const IntegerBinding& binding) const;
  IntegerKernel optimized(const IntegerBinding& binding) const;
  /// Returns the exponentials for codes of scale `s`. beta s must be above 2^-26.
  Exponentials exponentials(double s) const;
  bool operator==(const Softmax&) const = default;
};

}  // namespace qtape::integer
