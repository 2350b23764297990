// Constant: codes that a program holds.
#pragma once

#include "qtape/integer/core/integer_op.h"

namespace qtape::integer {

struct Constant {
  static constexpr std::string_view name = "Constant";
  static constexpr std::string_view doc = "y = the codes of the program.";

  CodeGrid grid = {};
  Tensor codes = {};  ///< of the grid's dtype

  static constexpr auto fields() {
    return std::tuple{
        field("grid", &Constant::grid, "of y"),
        field("codes", &Constant::codes, "of the dtype of the grid, in y's shape")};
  }
  IntegerValue infer(IntegerInputs inputs) const;
  void update(const IntegerBinding& binding, IntegerValue& y) const;
  IntegerKernel reference(const IntegerBinding& binding) const;
  IntegerKernel optimized(const IntegerBinding& binding) const;
  bool operator==(const Constant&) const = default;
};

}  // namespace qtape::integer
