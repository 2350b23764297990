// Lookup: a function of one code, as a table.
#pragma once

#include "qtape/integer/core/integer_op.h"

namespace qtape::integer {

struct Lookup {
  static constexpr std::string_view name = "Lookup";
  static constexpr std::string_view doc =
      "y = table[x - lowest], where lowest is the smallest value of x's dtype. A table of two "
      "axes has a row for each index of x's last axis. x codes of 8 or 16 bits; y codes of "
      "`grid`.";

  CodeGrid grid = {};
  Tensor table = {};  ///< of the grid's dtype, [256] or [65536], or [n, 256] or [n, 65536]

  static constexpr auto fields() {
    return std::tuple{
        field("grid", &Lookup::grid, "of y"),
        field("table", &Lookup::table,
              "a code of y for each code of x's dtype, or such a row for each index of the "
              "last axis")};
  }
  Placement placement() const { return Placement::InPlace; }
  IntegerValue infer(IntegerInputs inputs) const;
  void update(const IntegerBinding& binding, IntegerValue& y) const;
  IntegerKernel reference(const IntegerBinding& binding) const;
  IntegerKernel optimized(const IntegerBinding& binding) const;
  bool operator==(const Lookup&) const = default;
};

}  // namespace qtape::integer
