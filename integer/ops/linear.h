// Linear: products of codes with constant weights, summed in integers.
#pragma once

#include <functional>
#include <optional>

#include "qtape/integer/certificate.h"
#include "qtape/integer/integer_op.h"

namespace qtape::integer {

struct Linear {
  static constexpr std::string_view name = "Linear";
  static constexpr std::string_view doc =
      "y[..., c] = sum over i of (x[..., i] - zp) w[c, i] + b[c], in s32 where x has 8 bits "
      "and "
      "the certificate proves that it fits, else in s64. x codes [..., k], w [n, k]; y "
      "accumulators "
      "with scales s_x s_w[c].";

  Shape shape = {};  ///< [n, k]
  int storage_bits = 8;
  Tensor weight = {};  ///< u8, packed rows of codes
  Tensor scales = {};  ///< f32 [n] or [1]
  Tensor bias = {};    ///< s32 [n], or [0]
  Certificate certificate = {};

  static constexpr auto fields() {
    using L = Linear;
    return std::tuple{
        field("shape", &L::shape, "of the weights, [n, k]"),
        field("storage_bits", &L::storage_bits, "that a weight is stored in: 2, 4 or 8"),
        field("weight", &L::weight, "codes in two's complement, the first in the lowest bits"),
        field("scales", &L::scales, "of the weights, f32 [n], or [1] for all"),
        field("bias", &L::bias, "s32 [n] on the grid s_x s_w[c], or [0] for none"),
        field("certificate", &L::certificate, "what the weights prove; checked on load")};
  }
  IntegerValue infer(IntegerInputs inputs) const;
  IntegerKernel reference(const IntegerBinding& binding) const;
  IntegerKernel kernel(const IntegerBinding& binding) const;
  bool operator==(const Linear&) const = default;

  /// Codes of the weights [n, k].
  std::vector<int8_t> codes() const;
  /// Biases with the zero point of `x` taken in: b[c] - zp (sum over i of w[c, i]).
  std::vector<int64_t> offsets(const IntegerValue& x) const;
};

}  // namespace qtape::integer
