// Embedding: rows of a table of codes, by index.
#pragma once

#include "qtape/integer/core/integer_op.h"

namespace qtape::integer {

struct Embedding {
  static constexpr std::string_view name = "Embedding";
  static constexpr std::string_view doc =
      "y[.., j] = table[indices[..], j]. table codes [rows, width], of a Constant or computed; "
      "indices s32 within 0..rows - 1; any other is an error of the run. y has codes of the grid "
      "of table.";

  static constexpr auto fields() { return std::tuple<>{}; }
  IntegerValue infer(IntegerInputs inputs) const;
  void update(const IntegerBinding& binding, IntegerValue& y) const;
  IntegerKernel reference(const IntegerBinding& binding) const;
  IntegerKernel optimized(const IntegerBinding& binding) const;
  bool operator==(const Embedding&) const = default;
};

}  // namespace qtape::integer
