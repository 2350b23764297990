// Requantize: converts accumulators or codes to codes of another grid.
#pragma once

#include "qtape/integer/core/integer_op.h"

namespace qtape::integer {

struct Requantize {
  static constexpr std::string_view name = "Requantize";
  static constexpr std::string_view doc =
      "y = clamp(requant(x) + zp, low, high), where requant is the program's requantization. x "
      "accumulators, with one scale per channel or one for all, or codes, whose zero point is "
      "subtracted first.";

  CodeGrid grid = {};

  static constexpr auto fields() {
    return std::tuple{field("grid", &Requantize::grid, "of y")};
  }
  Placement placement() const { return Placement::InPlace; }
  IntegerValue infer(IntegerInputs inputs) const;
  void update(const IntegerBinding& binding, IntegerValue& y) const;
  IntegerKernel reference(const IntegerBinding& binding) const;
  IntegerKernel optimized(const IntegerBinding& binding) const;
  /// Returns the epilogue that computes y from the products of the op whose result is x.
  Epilogue epilogue(const IntegerBinding& binding) const;
  bool operator==(const Requantize&) const = default;
};

}  // namespace qtape::integer
