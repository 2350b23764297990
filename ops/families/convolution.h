// Common parts of convolutions: facts, extents and checks.
#pragma once

#include "qtape/ops/core/op.h"
#include "qtape/ops/families/window.h"

namespace qtape {

/// Facts about convolutions.
namespace convolution {

/// OpDocs: implementation.
inline constexpr const char* kernels =
    "f32 runs on oneDNN in pieces of images that do not depend on the thread count, f64 in "
    "plain loops.";
/// OpDocs: invalid operands.
inline constexpr const char* limits =
    "Refused: extents of 0 other than n, kernels larger than the padded x, channels that the "
    "groups do not divide, and padded extents of 2^31 or more.";
/// OpDocs: source.
inline constexpr const char* source =
    "LeCun et al., Gradient-based learning applied to document recognition, 1998; layouts as "
    "in TensorFlow Lite.";

}  // namespace convolution

/// Extents of a convolution over NHWC or, with h of extent 1, NLC: y [images, h.out, w.out,
/// out_channels] of x [images, h.in, w.in, in_channels].
struct Convolution {
  int64_t images = 0;
  int64_t groups = 1;
  int64_t in_channels = 1;
  int64_t out_channels = 1;
  Window window = {};

  int64_t inputs() const { return in_channels / groups; }    ///< input channels of a group
  int64_t outputs() const { return out_channels / groups; }  ///< output channels of a group
  bool operator==(const Convolution&) const = default;
};

/// Throws GraphError unless x and the filters have the same dtype, f32 or f64, and the ranks of
/// `x_layout` and `filter_layout`, such as "[n, h, w, c]". `groups` must divide the channels of
/// x and the number of filters, and the last extent of the filters must be the channels of a
/// group.
void check_filters(Inputs inputs, int64_t groups, std::string_view x_layout,
                   std::string_view filter_layout);

/// Throws GraphError if an extent exceeds the range of the kernels.
void check_extents(const Convolution& c);

}  // namespace qtape
