// Conv: filters of constant weights over windows of codes, summed in integers.
#pragma once

#include "qtape/integer/core/integer_op.h"
#include "qtape/integer/core/quantized_weights.h"
#include "qtape/ops/families/convolution.h"

namespace qtape::integer {

/// x is [batch, l, c] if `taps` has one element, [batch, h, w, c] if it has two.
struct Conv {
  static constexpr std::string_view name = "Conv";
  static constexpr std::string_view doc =
      "y[..., o] = sum over taps t and channels c of (x at t - zp) w[o, t, c] + b[o], over "
      "taps within x, summed and stored as in Linear. x codes, y accumulators with scales s_x "
      "s_w[o].";

  QuantizedWeights weights = {};
  Shape taps = {1, 1};
  Shape stride = {1, 1};
  Shape dilation = {1, 1};
  Padding padding = Padding::Valid;
  Shape pads_begin = {0, 0};
  Shape pads_end = {0, 0};
  int64_t groups = 1;

  static constexpr auto fields() {
    return std::tuple{
        field("weights", &Conv::weights,
              "w [o, taps channels], channels of a group innermost, with scales and b"),
        field("taps", &Conv::taps, "elements of a window along each axis"),
        field("stride", &Conv::stride, "steps between windows along each axis"),
        field("dilation", &Conv::dilation, "steps between taps along each axis"),
        field("padding", &Conv::padding,
              "Valid: none; Same: ceil(in / stride) windows; Explicit"),
        field("pads_begin", &Conv::pads_begin, "with Explicit: padding before each axis"),
        field("pads_end", &Conv::pads_end, "with Explicit: padding after each axis"),
        field("groups", &Conv::groups, "groups of channels, a divisor of both")};
  }
  /// Returns the extents of the convolution over codes of shape `x`, which `infer` must have
  /// accepted.
  Convolution extents(const Shape& x) const;
  /// Returns the codes that the weights multiply if kernels read padding as codes: x, extended
  /// by its zero point if there is padding.
  IntegerValue factors(const IntegerValue& x) const;
  IntegerValue infer(IntegerInputs inputs) const;
  void update(const IntegerBinding& binding, IntegerValue& y) const;
  IntegerKernel reference(const IntegerBinding& binding) const;
  IntegerKernel optimized(const IntegerBinding& binding) const;
  /// Returns a kernel that passes its products to `next` while they are in cache; y is not
  /// written.
  IntegerKernel optimized(const IntegerBinding& binding, Epilogue next) const;
  /// Explains how codes `x` are multiplied and why, on `path` if given.
  std::string explain(const IntegerValue& x, std::optional<ProductPath> path) const;
  bool operator==(const Conv&) const = default;
};

}  // namespace qtape::integer
