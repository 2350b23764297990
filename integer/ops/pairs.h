// Elementwise ops on two code tensors whose shapes broadcast: Add, Sub and Mul, with codes of a
// third grid as result, and Maximum and Minimum of codes of one grid.
#pragma once

#include "qtape/integer/core/integer_op.h"

namespace qtape::integer {

/// Sum of two code tensors.
struct Add {
  static constexpr std::string_view name = "Add";
  static constexpr std::string_view doc =
      "y = clamp(round(((a - zp_a) s_a + (b - zp_b) s_b) / s) + zp, low, high), computed as "
      "the program's requantization defines addition. a and b codes whose shapes broadcast.";

  CodeGrid grid = {};

  static constexpr auto fields() { return std::tuple{field("grid", &Add::grid, "of y")}; }
  Placement placement() const { return Placement::InPlace; }
  IntegerValue infer(IntegerInputs inputs) const;
  void update(const IntegerBinding& binding, IntegerValue& y) const;
  IntegerKernel reference(const IntegerBinding& binding) const;
  IntegerKernel optimized(const IntegerBinding& binding) const;
  bool operator==(const Add&) const = default;
};

/// Difference of two code tensors.
struct Sub {
  static constexpr std::string_view name = "Sub";
  static constexpr std::string_view doc =
      "y = clamp(round(((a - zp_a) s_a - (b - zp_b) s_b) / s) + zp, low, high), computed as "
      "Add with b - zp_b negated. a and b codes whose shapes broadcast.";

  CodeGrid grid = {};

  static constexpr auto fields() { return std::tuple{field("grid", &Sub::grid, "of y")}; }
  Placement placement() const { return Placement::InPlace; }
  IntegerValue infer(IntegerInputs inputs) const;
  void update(const IntegerBinding& binding, IntegerValue& y) const;
  IntegerKernel reference(const IntegerBinding& binding) const;
  IntegerKernel optimized(const IntegerBinding& binding) const;
  bool operator==(const Sub&) const = default;
};

/// Product of two code tensors.
struct Mul {
  static constexpr std::string_view name = "Mul";
  static constexpr std::string_view doc =
      "y = clamp(requant((a - zp_a) (b - zp_b)) + zp, low, high), where requant is the "
      "program's requantization from the scale s_a s_b. a and b codes whose shapes broadcast.";

  CodeGrid grid = {};

  static constexpr auto fields() { return std::tuple{field("grid", &Mul::grid, "of y")}; }
  Placement placement() const { return Placement::InPlace; }
  IntegerValue infer(IntegerInputs inputs) const;
  void update(const IntegerBinding& binding, IntegerValue& y) const;
  IntegerKernel reference(const IntegerBinding& binding) const;
  IntegerKernel optimized(const IntegerBinding& binding) const;
  bool operator==(const Mul&) const = default;
};

/// Elementwise maximum of two code tensors of one grid.
struct Maximum {
  static constexpr std::string_view name = "Maximum";
  static constexpr std::string_view doc =
      "y = max(a, b). a and b codes of one grid whose shapes broadcast; y has their grid.";

  static constexpr auto fields() { return std::tuple<>{}; }
  Placement placement() const { return Placement::InPlace; }
  IntegerValue infer(IntegerInputs inputs) const;
  void update(const IntegerBinding& binding, IntegerValue& y) const;
  IntegerKernel reference(const IntegerBinding& binding) const;
  IntegerKernel optimized(const IntegerBinding& binding) const;
  bool operator==(const Maximum&) const = default;
};

/// Elementwise minimum of two code tensors of one grid.
struct Minimum {
  static constexpr std::string_view name = "Minimum";
  static constexpr std::string_view doc =
      "y = min(a, b). a and b codes of one grid whose shapes broadcast; y has their grid.";

  static constexpr auto fields() { return std::tuple<>{}; }
  Placement placement() const { return Placement::InPlace; }
  IntegerValue infer(IntegerInputs inputs) const;
  void update(const IntegerBinding& binding, IntegerValue& y) const;
  IntegerKernel reference(const IntegerBinding& binding) const;
  IntegerKernel optimized(const IntegerBinding& binding) const;
  bool operator==(const Minimum&) const = default;
};

}  // namespace qtape::integer
