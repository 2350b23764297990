// Quantize: converts floats to codes at the inputs of a program.
#pragma once

#include "qtape/core/grid.h"
#include "qtape/integer/core/integer_op.h"

namespace qtape::integer {

struct Quantize {
  static constexpr std::string_view name = "Quantize";
  static constexpr std::string_view doc =
      "y = clamp(round(x / s) + zp, low, high). x f32. Values out of range, including "
      "infinities, saturate; NaN is an error.";

  CodeGrid grid = {};
  Rounding rounding = Rounding::HalfEven;
  Division division = Division::Exact;
  ZeroPoint zero_point = ZeroPoint::AfterRounding;

  static constexpr auto fields() {
    using Q = Quantize;
    return std::tuple{field("grid", &Q::grid, "of y"),
                      field("rounding", &Q::rounding, "HalfEven, HalfAway or HalfUp"),
                      field("division", &Q::division, "Exact x / s or Reciprocal x (1 / s)"),
                      field("zero_point", &Q::zero_point,
                            "AfterRounding or BeforeRounding round(x / s + zp)")};
  }
  IntegerValue infer(IntegerInputs inputs) const;
  void update(const IntegerBinding& binding, IntegerValue& y) const;
  IntegerKernel reference(const IntegerBinding& binding) const;
  IntegerKernel optimized(const IntegerBinding& binding) const;
  bool operator==(const Quantize&) const = default;
};

/// Throws GraphError that names the first NaN of x [n].
[[noreturn]] void refuse_nan(const float* x, int64_t n);
/// The end of its message.
inline constexpr std::string_view nan_without_code = "is NaN, which has no code";

}  // namespace qtape::integer
