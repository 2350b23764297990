#include "qtape/onnx/windows.h"

#include <fmt/format.h>

#include <algorithm>

#include "qtape/onnx/operators.h"

namespace qtape {

std::vector<int64_t> of_axes(const OnnxNode& node, const char* name, size_t count,
                             int64_t usual) {
  std::vector<int64_t> found = node.integers(name).value_or(std::vector<int64_t>(count, usual));
  require<FormatError>(found.size() == count, "attribute {} has {} numbers, expected {}", name,
                       found.size(), count);
  return found;
}

Windows windows_of(const OnnxNode& node, int axes) {
  const auto count = static_cast<size_t>(axes);
  Windows windows{.strides = of_axes(node, "strides", count, 1),
                  .dilations = of_axes(node, "dilations", count, 1),
                  .begin = std::vector<int64_t>(count, 0),
                  .end = std::vector<int64_t>(count, 0)};
  const std::string automatic = node.text("auto_pad", "NOTSET");
  if (automatic == "VALID") return windows;
  if (automatic == "SAME_UPPER") {
    windows.padding = Padding::Same;
    return windows;
  }
  require<FormatError>(automatic == "NOTSET", "auto_pad {} is not read", printable(automatic));
  const std::vector<int64_t> pads = of_axes(node, "pads", 2 * count, 0);
  if (std::ranges::all_of(pads, [](int64_t pad) { return pad == 0; })) return windows;
  windows.padding = Padding::Explicit;
  std::copy_n(pads.begin(), axes, windows.begin.begin());
  std::copy_n(pads.begin() + axes, axes, windows.end.begin());
  return windows;
}

template <class PoolOp>
PoolOp OnnxOperators::pool(int axes) {
  node.expect("ceil_mode", 0);
  const Windows windows = windows_of(node, axes);
  const std::vector<int64_t> kernel =
      of_axes(node, "kernel_shape", static_cast<size_t>(axes), 0);
  PoolOp op{
      .kernel = Shape(kernel), .stride = Shape(windows.strides), .padding = windows.padding};
  if (windows.padding == Padding::Explicit) {
    op.pads_begin = Shape(windows.begin);
    op.pads_end = Shape(windows.end);
  }
  return op;
}

void OnnxOperators::max_pool() {
  require<FormatError>(node.outputs() == 1, "the indices of maxima are not read");
  const OnnxValue a = to.to_channels_last(x());
  MaxPool op = pool<MaxPool>(a.rank() - 2);
  op.dilation = Shape(of_axes(node, "dilations", static_cast<size_t>(a.rank() - 2), 1));
  const NodeId y = to.add(op, {a.id});
  const auto lies = to.graph_[y].type.shape.extents();
  OnnxValue result{.id = y, .shape = {1, a.shape[1]}, .layout = OnnxLayout::ChannelsLast};
  result.shape.insert(result.shape.end(), lies.begin() + 1, lies.end() - 1);
  give(std::move(result));
}

void OnnxOperators::average_pool() {
  const OnnxValue a = to.to_channels_last(x());
  AvgPool op = pool<AvgPool>(a.rank() - 2);
  op.count_include_pad = node.integer("count_include_pad", 0) != 0;
  for (const int64_t each : of_axes(node, "dilations", static_cast<size_t>(a.rank() - 2), 1)) {
    require<FormatError>(each == 1, "dilations other than 1 are not read");
  }
  const NodeId y = to.add(op, {a.id});
  const auto lies = to.graph_[y].type.shape.extents();
  OnnxValue result{.id = y, .shape = {1, a.shape[1]}, .layout = OnnxLayout::ChannelsLast};
  result.shape.insert(result.shape.end(), lies.begin() + 1, lies.end() - 1);
  give(std::move(result));
}

void OnnxOperators::global_average_pool() {
  const OnnxValue a = to.to_channels_last(x());
  OnnxValue result{.id = to.add(GlobalAvgPool{.keep_dims = true}, {a.id}),
                   .shape = a.shape,
                   .layout = OnnxLayout::ChannelsLast};
  std::fill(result.shape.begin() + 2, result.shape.end(), int64_t{1});
  give(std::move(result));
}

template <class X>
void OnnxOperators::reduce() {
  OnnxValue a = x();
  if (a.layout == OnnxLayout::Flat) a = to.to_same(a);
  const auto given = to.integers_or(node, "axes", 1);
  require<FormatError>(given && !given->empty(),
                       "without axes it would join samples; name them");
  const bool kept = node.integer("keepdims", 1) != 0;
  std::vector<bool> gone(a.shape.size(), false);
  X op{.keep_dims = kept};
  for (const int64_t each : *given) {
    const int axis = onnx_axis(each, a.rank());
    require<FormatError>(axis != 0, "axis 0 would join samples");
    gone[static_cast<size_t>(axis)] = true;
    op.axes.push_back(OnnxImporter::physical_axis(a, axis));
  }
  OnnxValue result{.id = to.add(op, {a.id}), .shape = {}, .layout = a.layout};
  for (size_t k = 0; k < a.shape.size(); ++k) {
    if (!gone[k]) result.shape.push_back(a.shape[k]);
    if (gone[k] && kept) result.shape.push_back(1);
  }
  // Without channels, or with nothing but them, the order of axes is that of ONNX.
  if (!kept && (gone[1] || result.rank() < 3)) result.layout = OnnxLayout::Same;
  give(std::move(result));
}

void OnnxOperators::reduce_mean() { reduce<Mean>(); }
void OnnxOperators::reduce_sum() { reduce<Sum>(); }
void OnnxOperators::reduce_max() { reduce<Max>(); }

}  // namespace qtape
