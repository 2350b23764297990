// Which elements of a tensor share a scale: the whole tensor, a channel or a group.
#pragma once

#include <algorithm>
#include <optional>

#include "qtape/core/error.h"
#include "qtape/core/types.h"

namespace qtape {

/// `axis` alone: a scale per index of it. With `group_size`: a scale per run of so many
/// consecutive indices of the axis, apart for each place of all other axes, as ONNX's blocked
/// quantization has it. Neither: one scale per tensor. Per token is axis 0.
struct Granularity {
  std::optional<int> axis = std::nullopt;            ///< negative ones count from the back
  std::optional<int64_t> group_size = std::nullopt;  ///< divides the axis

  /// The shape of the scales of a tensor of `shape`: [1], [channels], or `shape` with the axis
  /// divided by the group size. Throws GraphError for an axis or a group size that does not
  /// fit.
  Shape scales_shape(const Shape& shape) const {
    if (!axis) {
      check(!group_size, "group_size needs an axis");
      return {1};
    }
    const int resolved = resolve_axis(*axis, shape);
    if (!group_size) return {shape[resolved]};
    check(*group_size >= 1 && shape[resolved] % *group_size == 0,
          "group_size {} must be at least 1 and divide axis {}, which has {}", *group_size,
          *axis, shape[resolved]);
    return shape.with(resolved, shape[resolved] / *group_size);
  }
  bool operator==(const Granularity&) const = default;
};

/// From the index of an element to the index of its scale:
/// i / block * stride + i / segment % wrap.
struct ChannelMap {
  int64_t channels = 1;  ///< how many scales there are
  int64_t block = 1;     ///< elements before the scales move on for good
  int64_t stride = 0;    ///< scales that they move on by
  int64_t segment = 1;   ///< consecutive elements of one channel
  int64_t wrap = 1;      ///< channels that take turns within a block

  ChannelMap() = default;
  ChannelMap(const Shape& shape, const Granularity& granularity)
      : channels(granularity.scales_shape(shape).elements()),
        block(std::max<int64_t>(1, shape.elements())) {
    if (!granularity.axis) {
      segment = block;
      return;
    }
    const AxisView view = axis_view(shape, resolve_axis(*granularity.axis, shape));
    segment = std::max<int64_t>(1, view.inner);
    wrap = std::max<int64_t>(1, view.channels);
    if (!granularity.group_size) return;
    if (view.inner == 1) {
      segment = *granularity.group_size;
      wrap = std::max<int64_t>(1, channels);
      return;
    }
    block = std::max<int64_t>(1, *granularity.group_size * view.inner);
    stride = view.inner;
    segment = 1;
    wrap = std::max<int64_t>(1, view.inner);
  }

  int64_t operator()(int64_t i) const { return i / block * stride + i / segment % wrap; }
  bool operator==(const ChannelMap&) const = default;
};

}  // namespace qtape
