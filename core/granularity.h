// Granularity of scales: one per tensor, per channel or per group.
#pragma once

#include <algorithm>
#include <optional>

#include "qtape/core/error.h"
#include "qtape/core/types.h"

namespace qtape {

/// Elements that share a scale. Without `axis`: the whole tensor. With `axis` alone: each index
/// of the axis. With `axis` and `group_size`: each run of `group_size` consecutive indices of
/// the axis, separately for each position along the other axes (ONNX blocked quantization). Per
/// token is axis 0.
struct Granularity {
  std::optional<int> axis = std::nullopt;            ///< negative values count from the back
  std::optional<int64_t> group_size = std::nullopt;  ///< must divide the extent of the axis

  /// Returns the shape of the scales of a tensor of `shape`: [1], [channels], or `shape` with
  /// the extent of `axis` divided by the group size. Throws GraphError if the axis or the group
  /// size does not fit `shape`.
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

/// Maps the index i of an element to the index of its scale:
/// (i / block) * stride + (i / segment) % wrap.
struct ChannelMap {
  int64_t channels = 1;  ///< number of scales
  int64_t block = 1;     ///< elements after which the scale index advances by `stride`
  int64_t stride = 0;    ///< number of scales to advance by
  int64_t segment = 1;   ///< consecutive elements of one channel
  int64_t wrap = 1;      ///< channels that alternate within a block

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
