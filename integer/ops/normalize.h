// Normalize: codes normalized by their own statistics.
#pragma once

#include <span>

#include "qtape/integer/core/integer_op.h"

namespace qtape::integer {

/// Layer, group and instance norms, and norms without a mean. Each set of elements is divided
/// by the root of its statistic; channels have a factor of -1, 0 or 1 and a scale each.
struct Normalize {
  static constexpr std::string_view name = "Normalize";
  static constexpr std::string_view doc =
      "y = signs[c] round(2^16 d / sqrt(v)) + bias[c] with d = n q - A, v = max(4^shift V + "
      "epsilon, least) / 4^shift and V = n B - A^2, where q = x - zp, A and B are the sums of q "
      "and q^2 over the n elements of a set; A = 0 unless `centered`. S[c] = 2^-16 scales[c].";

  /// Fractional bits of normalized elements.
  static constexpr int fraction = 16;
  static constexpr int64_t max_bias = int64_t{1} << 30;
  /// Bound of n |q| 2^shift, exclusive.
  static constexpr int64_t max_sum = int64_t{1} << 30;
  /// Largest value of `epsilon` and `least`.
  static constexpr int64_t max_epsilon = int64_t{1} << 60;

  int64_t groups = 1;
  bool joint = false;
  bool centered = true;
  int shift = 0;
  int64_t epsilon = 0;
  int64_t least = 1;
  Tensor signs = {};   ///< s32 [c]
  Tensor scales = {};  ///< f32 [c]
  Tensor bias = {};    ///< s32 [c]

  static constexpr auto fields() {
    using N = Normalize;
    return std::tuple{
        field("groups", &N::groups, "sets into which the last axis is divided"),
        field("joint", &N::joint,
              "a set has all positions between the first and the last axis"),
        field("centered", &N::centered, "the mean is subtracted"),
        field("shift", &N::shift, "fractional bits of the root's square, by two"),
        field("epsilon", &N::epsilon, "added to 4^shift V"),
        field("least", &N::least, "lower bound of the sum of both, at least 4^shift"),
        field("signs", &N::signs, "s32 [c], each -1, 0 or 1"),
        field("scales", &N::scales, "f32 [c]"),
        field("bias", &N::bias, "s32 [c], magnitudes up to 2^30")};
  }
  IntegerValue infer(IntegerInputs inputs) const;
  void update(const IntegerBinding& binding, IntegerValue& y) const;
  IntegerKernel reference(const IntegerBinding& binding) const;
  IntegerKernel optimized(const IntegerBinding& binding) const;
  /// Returns a kernel that passes sums without bias to `next` while they are in cache; y is not
  /// written.
  IntegerKernel optimized(const IntegerBinding& binding, Epilogue next) const;
  bool operator==(const Normalize&) const = default;

  /// Largest number of elements of a set of codes.
  static int64_t max_terms(DType codes);
  /// Number of elements of a set of codes of shape `x`.
  int64_t terms(const Shape& x) const;
};

/// Real-valued parameters of a norm, from which the integers of a `Normalize` are computed.
struct NormNumbers {
  double eps = 0;       ///< added to the mean square; with `limits`, the smallest norm
  bool limits = false;  ///< the divisor is max(norm, eps), the norm being that of the sum of
                        ///< squares
  std::span<const float> gamma = {};  ///< [c], or empty for 1
  std::span<const float> beta = {};   ///< [c], or empty for 0
};

/// Sets shift, epsilon, least, signs, scales and bias of `op` for codes `x`; the tensors must
/// have their types. Does not allocate.
void set_numbers(Normalize& op, const IntegerValue& x, const NormNumbers& numbers);

}  // namespace qtape::integer
