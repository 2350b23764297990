// Constant weights as used by integer ops.
#pragma once

#include <cstdint>
#include <string_view>
#include <tuple>
#include <vector>

#include "qtape/core/fields.h"
#include "qtape/core/types.h"
#include "qtape/integer/core/certificate.h"

namespace qtape {

/// Codes of n outputs with k weights each, with scales, biases and certificate: a member of
/// every integer op that multiplies by constants.
struct QuantizedWeights {
  static constexpr std::string_view name = "QuantizedWeights";

  Shape shape = {};  ///< [n, k]
  int storage_bits = 8;
  Tensor codes = {};   ///< u8, packed rows of codes
  Tensor scales = {};  ///< f32 [n] or [1]
  Tensor bias = {};    ///< s32 [n], or [0]
  Certificate certificate = {};

  static constexpr auto fields() {
    using W = QuantizedWeights;
    return std::tuple{
        field("shape", &W::shape, "[n, k]: outputs, and weights per output"),
        field("storage_bits", &W::storage_bits, "bits per stored code: 2, 4 or 8"),
        field("codes", &W::codes, "in two's complement, the first in the lowest bits"),
        field("scales", &W::scales, "f32 [n], or [1] for all"),
        field("bias", &W::bias, "s32 [n] on the grid s_x s_w[c], or [0] for none"),
        field("certificate", &W::certificate, "bounds proven by the weights; checked on load")};
  }
  bool operator==(const QuantizedWeights&) const = default;

  int64_t outputs() const { return shape[0]; }
  int64_t terms() const { return shape[1]; }
  /// Returns the codes [n, k].
  std::vector<int8_t> unpacked() const;
  /// Returns the biases [n], or an empty vector.
  std::vector<int32_t> biases() const;
  /// Returns the biases [n], 0 if there are none.
  std::vector<int32_t> all_biases() const;
  /// Returns the biases with the zero point of `x` folded in: b[c] - zp (sum over i of w[c,
  /// i]).
  std::vector<int64_t> offsets(const IntegerValue& x) const;
  /// Throws GraphError for inconsistent attributes.
  void check() const;
  /// Returns the type of the accumulators for codes `x`, in the shape `result` [..., n]. Throws
  /// GraphError for a certificate that does not hold and for invalid scales.
  /// `f32_scales` as in accumulator_scale.
  IntegerValue accumulators(const IntegerValue& x, const Shape& result,
                            bool f32_scales = false) const;
};

/// Returns the scale of accumulators of codes of scale `s_x` and weights of scale `s_w`: their
/// product, which is exact, or rounded to f32.
inline double accumulator_scale(double s_x, float s_w, bool f32_scales) {
  const double product = s_x * double{s_w};
  return f32_scales ? double{static_cast<float>(product)} : product;
}

/// Packs `codes` [n, k] and certifies them for codes `x`. `bias` and `scales` are as above.
/// Throws GraphError for sizes that do not agree.
QuantizedWeights pack_weights(std::span<const int8_t> codes, const Shape& shape,
                              int storage_bits, std::span<const float> scales,
                              std::span<const int32_t> bias, const IntegerValue& x);

}  // namespace qtape
