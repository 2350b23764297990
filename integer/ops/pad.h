// Pad of codes: adds a border of one code.
#pragma once

#include "qtape/integer/core/integer_op.h"

namespace qtape::integer {

/// Adds a border filled with one code.
struct Pad {
  static constexpr std::string_view name = "Pad";
  static constexpr std::string_view doc =
      "y = x at the positions from `begin`, and `code` elsewhere; codes of the same grid.";
  /// `code` is a number of the grid.
  static constexpr bool follows_grid = true;

  Shape begin = {};
  Shape end = {};
  int32_t code = 0;

  static constexpr auto fields() {
    return std::tuple{field("begin", &Pad::begin, "elements before x along each axis"),
                      field("end", &Pad::end, "elements after x along each axis"),
                      field("code", &Pad::code, "of the border; a code of x's dtype")};
  }
  IntegerValue infer(IntegerInputs inputs) const;
  void update(const IntegerBinding& binding, IntegerValue& y) const;
  IntegerKernel reference(const IntegerBinding& binding) const;
  IntegerKernel optimized(const IntegerBinding& binding) const;
  bool operator==(const Pad&) const = default;
};

/// Returns the code of `value` on `grid`: the nearest one, ties to even, clamped to the range.
int32_t border_code(double value, const CodeGrid& grid);

}  // namespace qtape::integer
