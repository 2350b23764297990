// What convolutions share: the attributes that say more than where windows lie, and extents.
#pragma once

#include "qtape/ops/core/op.h"
#include "qtape/ops/families/window.h"

namespace qtape {

/// Facts about convolutions.
namespace convolution {

/// OpDocs: how it is computed.
inline constexpr const char* kernels =
    "f32 runs on oneDNN in pieces of images that do not depend on the thread count, f64 in "
    "plain loops.";
/// OpDocs: what is refused.
inline constexpr const char* limits =
    "Extents of 0 are refused but for n, and so are kernels beyond the padded x, channels that "
    "the groups do not divide and padded extents from 2^31 on.";
/// OpDocs: where it is from.
inline constexpr const char* source =
    "LeCun et al., Gradient-based learning applied to document recognition, 1998; layouts as "
    "in TensorFlow Lite.";

}  // namespace convolution

/// The extents of a convolution over NHWC or, with h of extent 1, NLC: y [images, h.out, w.out,
/// out_channels] of x [images, h.in, w.in, in_channels].
struct Convolution {
  int64_t images = 0;
  int64_t groups = 1;
  int64_t in_channels = 1;
  int64_t out_channels = 1;
  Window window = {};

  int64_t inputs() const { return in_channels / groups; }    ///< channels of a group
  int64_t outputs() const { return out_channels / groups; }  ///< channels of a group
  bool operator==(const Convolution&) const = default;
};

/// Throws GraphError unless x and the filters, of one dtype that is computed in, have the rank
/// of `layout`, such as "[n, h, w, c]", and filters [o, ..., i] the channels of x and `groups`.
void check_filters(Inputs inputs, int64_t groups, std::string_view x_layout,
                   std::string_view filter_layout);

/// Throws GraphError for extents that go beyond what kernels count in.
void check_extents(const Convolution& c);

}  // namespace qtape
