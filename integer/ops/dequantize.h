// Dequantize: converts codes or accumulators to floats at the outputs of a program.
#pragma once

#include <optional>

#include "qtape/integer/core/integer_op.h"

namespace qtape::integer {

struct Dequantize {
  static constexpr std::string_view name = "Dequantize";
  static constexpr std::string_view doc =
      "y = (x - zp) s for codes, float(x) s[c] for accumulators, in f32; limited to [low, "
      "high] if given.";

  std::optional<double> low = std::nullopt;
  std::optional<double> high = std::nullopt;

  static constexpr auto fields() {
    return std::tuple{field("low", &Dequantize::low, "smallest y, or null"),
                      field("high", &Dequantize::high, "largest y, or null")};
  }
  IntegerValue infer(IntegerInputs inputs) const;
  void update(const IntegerBinding&, IntegerValue&) const {}
  IntegerKernel reference(const IntegerBinding& binding) const;
  IntegerKernel optimized(const IntegerBinding& binding) const;
  /// Returns the epilogue that computes y from the products of the op whose result is x.
  Epilogue epilogue(const IntegerBinding& binding) const;
  bool operator==(const Dequantize&) const = default;
};

}  // namespace qtape::integer
