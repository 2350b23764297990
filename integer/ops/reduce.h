// Max and Sum of codes over axes.
#pragma once

#include "qtape/integer/core/integer_op.h"

namespace qtape::integer {

/// Maximum of codes along axes.
struct Max {
  static constexpr std::string_view name = "Max";
  static constexpr std::string_view doc =
      "y = the largest code of x over `axes`, or over all axes if none are given; a code of "
      "the same grid.";

  std::vector<int> axes = {};
  bool keep_dims = false;

  static constexpr auto fields() {
    return std::tuple{
        field("axes", &Max::axes, "each in [-rank, rank), none twice; empty: all"),
        field("keep_dims", &Max::keep_dims, "keep the axes with extent 1")};
  }
  IntegerValue infer(IntegerInputs inputs) const;
  void update(const IntegerBinding& binding, IntegerValue& y) const;
  IntegerKernel reference(const IntegerBinding& binding) const;
  IntegerKernel optimized(const IntegerBinding& binding) const;
  bool operator==(const Max&) const = default;
};

/// Sum of codes along axes.
struct Sum {
  static constexpr std::string_view name = "Sum";
  static constexpr std::string_view doc =
      "y = the sum of x - zp over `axes`, or over all axes if none are given, in s32 if it "
      "always fits, else in s64. With `mean`, y represents the mean: its scale is that of x "
      "divided by the number of terms.";

  std::vector<int> axes = {};
  bool keep_dims = false;
  bool mean = false;

  static constexpr auto fields() {
    return std::tuple{
        field("axes", &Sum::axes, "each in [-rank, rank), none twice; empty: all"),
        field("keep_dims", &Sum::keep_dims, "keep the axes with extent 1"),
        field("mean", &Sum::mean, "y represents the mean")};
  }
  IntegerValue infer(IntegerInputs inputs) const;
  void update(const IntegerBinding& binding, IntegerValue& y) const;
  IntegerKernel reference(const IntegerBinding& binding) const;
  IntegerKernel optimized(const IntegerBinding& binding) const;
  /// Returns the scale of y.
  double scale_of(const IntegerValue& x) const;
  bool operator==(const Sum&) const = default;
};

}  // namespace qtape::integer
