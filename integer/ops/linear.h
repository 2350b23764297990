// Linear: products of codes with constant weights, summed in integers.
#pragma once

#include "qtape/integer/core/integer_op.h"
#include "qtape/integer/core/quantized_weights.h"

/// Ops of integer programs.
namespace qtape::integer {

struct Linear {
  static constexpr std::string_view name = "Linear";
  static constexpr std::string_view doc =
      "y[..., c] = sum over i of (x[..., i] - zp) w[c, i] + b[c], in s32 if x has 8 bits and "
      "the certificate proves that the sum fits, else in s64. x codes [..., k], w [n, k]; y "
      "accumulators with scales s_x s_w[c], rounded to f32 with `f32_scales`.";

  QuantizedWeights weights = {};
  bool f32_scales = false;

  static constexpr auto fields() {
    return std::tuple{
        field("weights", &Linear::weights, "w, with scales and b"),
        optional_field("f32_scales", &Linear::f32_scales,
                       "S[c] is rounded to f32, as TFLite does for weights of one scale")};
  }
  IntegerValue infer(IntegerInputs inputs) const;
  void update(const IntegerBinding& binding, IntegerValue& y) const;
  IntegerKernel reference(const IntegerBinding& binding) const;
  IntegerKernel optimized(const IntegerBinding& binding) const;
  /// Returns a kernel that passes its products to `next` while they are in cache; y is not
  /// written.
  IntegerKernel optimized(const IntegerBinding& binding, Epilogue next) const;
  /// Explains how codes `x` are multiplied and why, on `path` if given.
  std::string explain(const IntegerValue& x, std::optional<ProductPath> path) const;
  bool operator==(const Linear&) const = default;
};

}  // namespace qtape::integer
