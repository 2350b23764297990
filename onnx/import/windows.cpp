#include "qtape/onnx/import/windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "qtape/onnx/import/operators.h"

namespace qtape {
namespace {

struct WindowOperators : OnnxOperators {
  void max_pool();
  void average_pool();
  void average_channels();
  void global_average_pool();
  void global_max_pool();
  void global_pool(const Op& op, OnnxValue a);
  void reduce_mean();
  void reduce_sum();
  void reduce_max();

  template <class PoolOp>
  PoolOp pool(const OnnxValue& a, const Windows& windows);
  void reduce_min();
  void reduce_l1();
  void reduce_l2();
  void reduce_sum_square();
  void reduce_log_sum();
  void reduce_log_sum_exp();
  /// Sets the output to `after` of the reduction of `before`.
  template <class X>
  void reduce(const char* part, const std::vector<Op>& before = {},
              const std::vector<Op>& after = {});
};

}  // namespace

std::vector<int64_t> of_axes(const OnnxNode& node, const char* name, size_t count,
                             int64_t fallback) {
  std::vector<int64_t> found =
      node.integers(name).value_or(std::vector<int64_t>(count, fallback));
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
  const std::vector<int64_t> pads = of_axes(node, "pads", 2 * count, 0);
  const std::string automatic = node.text("auto_pad", "NOTSET");
  if (automatic == "SAME_UPPER") windows.padding = Padding::Same;
  if (automatic != "NOTSET") return windows;
  if (std::ranges::all_of(pads, [](int64_t pad) { return pad == 0; })) return windows;
  windows.padding = Padding::Explicit;
  std::copy_n(pads.begin(), axes, windows.begin.begin());
  std::copy_n(pads.begin() + axes, axes, windows.end.begin());
  return windows;
}

namespace {

/// Returns the extent of a window. Throws FormatError beyond the size of any tensor.
int64_t span_of(int64_t kernel, int64_t dilation) {
  require<FormatError>(kernel >= 1 && dilation >= 1, "invalid kernel {} with dilation {}",
                       kernel, dilation);
  return onnx_product(kernel - 1, dilation) + 1;
}

/// Returns the number of elements that ceil_mode appends to an axis for a last window. That
/// window must begin within `before + in`, before the end padding; the axis has `padded`
/// elements including padding.
int64_t ceiled(int64_t padded, int64_t in, int64_t before, int64_t span, int64_t stride) {
  const int64_t rest = (padded - span) % stride;
  if (padded < span || rest == 0) return 0;
  const int64_t start = padded - span - rest + stride;
  return start < in + before ? stride - rest : 0;
}

void bound(int64_t number) {
  require<FormatError>(number >= 0 && number <= Shape::max_elements,
                       "{} exceeds the largest tensor", number);
}

}  // namespace

void OnnxOperators::expect_auto_pad() {
  const std::string automatic = node.text("auto_pad", "NOTSET");
  const bool known = automatic == "NOTSET" || automatic == "VALID" ||
                     automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  expect(known, "auto_pad {} is not supported", printable(automatic));
}

Windows OnnxOperators::windows(const std::vector<int64_t>& shape,
                               const std::vector<int64_t>& kernel) {
  Windows found = windows_of(node, static_cast<int>(kernel.size()));
  const bool lower = node.text("auto_pad", "NOTSET") == "SAME_LOWER";
  const bool upper = found.padding == Padding::Same;
  const bool ceil = node.integer("ceil_mode", 0) != 0;
  if (!lower && !upper && !ceil) return found;
  bool padded = false;
  for (size_t k = 0; k < kernel.size(); ++k) {
    const int64_t in = shape[k + 2], stride = found.strides[k];
    const int64_t span = span_of(kernel[k], found.dilations[k]);
    for (const int64_t each : {stride, found.begin[k], found.end[k]}) bound(each);
    require<FormatError>(stride >= 1, "invalid stride {}", stride);
    if (lower || upper) {
      const int64_t missing = (in - 1) / stride * stride + span - in;
      // Runtimes differ about the place of the windows.
      require<FormatError>(missing >= -1,
                           "auto_pad with a stride of {} and windows of {} leaves out elements "
                           "on both sides of {}: use pads",
                           stride, span, in);
      if (upper) continue;
      const int64_t total = std::max<int64_t>(0, missing);
      found.end[k] = total / 2;
      found.begin[k] = total - total / 2;
    } else {
      const int64_t whole = in + found.begin[k] + found.end[k];
      found.end[k] += ceiled(whole, in, found.begin[k], span, stride);
    }
    padded = padded || found.begin[k] + found.end[k] > 0;
  }
  if (padded) found.padding = Padding::Explicit;
  return found;
}

template <class PoolOp>
PoolOp WindowOperators::pool(const OnnxValue& a, const Windows& over) {
  PoolOp op{.kernel = Shape(of_axes(node, "kernel_shape", a.shape.size() - 2, 0)),
            .stride = Shape(over.strides),
            .padding = over.padding};
  if (over.padding == Padding::Explicit) {
    op.pads_begin = Shape(over.begin);
    op.pads_end = Shape(over.end);
  }
  return op;
}

void WindowOperators::max_pool() {
  expect_auto_pad();
  const OnnxValue a = to.to_channels_last(x());
  const auto kernel = of_axes(node, "kernel_shape", a.shape.size() - 2, 0);
  // ceil_mode adds padding, which a maximum never selects.
  const Windows over = windows(a.shape, kernel);
  MaxPool op = pool<MaxPool>(a, over);
  op.dilation = Shape(over.dilations);
  give_channels_last(to.add(op, {a.id}, to.node_label(node, "pool")), a.shape[1]);
}

/// Averages over the channels of images, which exporters give an axis of extent 1 and windows
/// over three axes: [n, 1, c, h, w] is stored as [n, c, h w].
void WindowOperators::average_channels() {
  const bool counted = node.integer("count_include_pad", 0) != 0;
  expect_attribute("ceil_mode", 0);
  expect(node.text("auto_pad", "NOTSET") == "NOTSET",
         "auto_pad is not supported over channels");
  const OnnxValue a = to.to_same(x());
  const Windows over = windows_of(node, 3);
  const std::vector<int64_t> kernel = of_axes(node, "kernel_shape", 3, 0);
  const auto only_first = [](const std::vector<int64_t>& numbers, int64_t expected) {
    return numbers[1] == expected && numbers[2] == expected;
  };
  require<FormatError>(a.shape[1] == 1 && only_first(kernel, 1) &&
                           only_first(over.strides, 1) && only_first(over.begin, 0) &&
                           only_first(over.end, 0) &&
                           over.dilations == std::vector<int64_t>(3, 1),
                       "expected an input of rank 3 or 4, got rank 5");
  AvgPool op{.kernel = {kernel[0]}, .stride = {over.strides[0]}, .padding = over.padding};
  if (over.padding == Padding::Explicit) {
    op.pads_begin = {over.begin[0]};
    op.pads_end = {over.end[0]};
  }
  op.count_include_pad = counted;
  const int64_t places = onnx_product(a.shape[3], a.shape[4]);
  const NodeId rows = to.add(Reshape{.shape = {-1, a.shape[2], places}}, {a.id});
  const NodeId y = to.add(op, {rows}, to.node_label(node, "pool"));
  OnnxValue result{.id = y, .shape = a.shape};
  result.shape[2] = to.graph()[y].type.shape[1];
  result.id = to.add(Reshape{.shape = {-1, 1, result.shape[2], a.shape[3], a.shape[4]}}, {y});
  give(std::move(result));
}

void WindowOperators::average_pool() {
  expect_auto_pad();
  const OnnxValue* found = to.find_value(node.input(0));
  if (found != nullptr && found->rank() == 5) return average_channels();
  const bool counted = node.integer("count_include_pad", 0) != 0;
  // The extents of SAME are rounded up anyway.
  const bool ceil =
      node.integer("ceil_mode", 0) != 0 && !node.text("auto_pad", "NOTSET").starts_with("SAME");
  const auto dilations = node.integers("dilations").value_or(std::vector<int64_t>{});
  expect(std::ranges::all_of(dilations, [](int64_t each) { return each == 1; }),
         "dilations other than 1 are not supported");
  const OnnxValue a = to.to_channels_last(x());
  const auto kernel = of_axes(node, "kernel_shape", a.shape.size() - 2, 0);
  const Windows over = windows(a.shape, kernel);
  const Windows plain = windows_of(node, static_cast<int>(kernel.size()));
  const bool padded = plain.padding == Padding::Explicit;
  // Elements added by ceil_mode do not count.
  require<FormatError>(!ceil || !counted || !padded || over.end == plain.end,
                       "ceil_mode adds elements that count_include_pad does not count");
  if (over.padding == Padding::Valid &&
      std::ranges::equal(kernel, std::span(a.shape).subspan(2))) {
    return global_pool(GlobalAvgPool{.keep_dims = true}, a);
  }
  AvgPool op = pool<AvgPool>(a, over);
  op.count_include_pad = counted && !(ceil && !padded);
  give_channels_last(to.add(op, {a.id}, to.node_label(node, "pool")), a.shape[1]);
}

/// Sets the output to `op` over all positions of `a`, which is channels-last.
void WindowOperators::global_pool(const Op& op, OnnxValue a) {
  a.id = to.add(op, {a.id}, to.node_label(node, "pool"));
  std::fill(a.shape.begin() + 2, a.shape.end(), int64_t{1});
  give({.id = a.id, .shape = std::move(a.shape), .layout = OnnxLayout::ChannelsLast});
}

void WindowOperators::global_average_pool() {
  global_pool(GlobalAvgPool{.keep_dims = true}, to.to_channels_last(x()));
}

void WindowOperators::global_max_pool() {
  OnnxValue a = to.to_channels_last(x());
  Max op{.keep_dims = true};
  for (int axis = 1; axis + 1 < static_cast<int>(a.shape.size()); ++axis)
    op.axes.push_back(axis);
  global_pool(op, std::move(a));
}

template <class X>
void WindowOperators::reduce(const char* part, const std::vector<Op>& before,
                             const std::vector<Op>& after) {
  const auto given = to.integers_or(node, "axes", 1);
  expect(given && !given->empty(), "without axes it would join samples; specify them");
  (void)node.has("noop_with_empty_axes");
  OnnxValue a = x();
  if (a.layout == OnnxLayout::Flat) a = to.to_same(a);
  for (const Op& each : before) a.id = to.add(each, {a.id});
  const bool kept = node.integer("keepdims", 1) != 0;
  std::vector<bool> gone(a.shape.size(), false);
  X op{.keep_dims = kept};
  for (const int64_t each : *given) {
    const int axis = onnx_axis(each, a.rank());
    require<OnnxMixedSamples>(axis != 0, "axis 0 would join samples");
    gone[static_cast<size_t>(axis)] = true;
    op.axes.push_back(OnnxImporter::physical_axis(a, axis));
  }
  OnnxValue result{
      .id = to.add(op, {a.id}, to.node_label(node, part)), .shape = {}, .layout = a.layout};
  for (size_t k = 0; k < a.shape.size(); ++k) {
    if (!gone[k]) result.shape.push_back(a.shape[k]);
    if (gone[k] && kept) result.shape.push_back(1);
  }
  // With channels only, or without channels, the axis order is that of ONNX.
  if (!kept && (gone[1] || result.rank() < 3)) result.layout = OnnxLayout::Same;
  for (const Op& each : after) result.id = to.add(each, {result.id});
  give(std::move(result));
}

void WindowOperators::reduce_mean() { reduce<Mean>("mean"); }
void WindowOperators::reduce_sum() { reduce<Sum>("sum"); }
void WindowOperators::reduce_max() { reduce<Max>("max"); }
void WindowOperators::reduce_min() { reduce<Max>("max", {Neg{}}, {Neg{}}); }
void WindowOperators::reduce_l1() { reduce<Sum>("sum", {Abs{}}); }
void WindowOperators::reduce_l2() { reduce<Sum>("sum", {Pow{}}, {Sqrt{}}); }
void WindowOperators::reduce_sum_square() { reduce<Sum>("sum", {Pow{}}); }
void WindowOperators::reduce_log_sum() { reduce<Sum>("sum", {}, {Log{}}); }
/// Without the usual subtraction of the maximum: exponentials of numbers above 88 overflow.
void WindowOperators::reduce_log_sum_exp() { reduce<Sum>("sum", {Exp{}}, {Log{}}); }

namespace {

constexpr OnnxOperator window_rows[] = {
    {"MaxPool", convert<&WindowOperators::max_pool>},
    {"AveragePool", convert<&WindowOperators::average_pool>},
    {"GlobalAveragePool", convert<&WindowOperators::global_average_pool>},
    {"GlobalMaxPool", convert<&WindowOperators::global_max_pool>},
    {"ReduceMean", convert<&WindowOperators::reduce_mean>},
    {"ReduceSum", convert<&WindowOperators::reduce_sum>},
    {"ReduceMax", convert<&WindowOperators::reduce_max>},
    {"ReduceMin", convert<&WindowOperators::reduce_min>},
    {"ReduceL1", convert<&WindowOperators::reduce_l1>},
    {"ReduceL2", convert<&WindowOperators::reduce_l2>},
    {"ReduceSumSquare", convert<&WindowOperators::reduce_sum_square>},
    {"ReduceLogSum", convert<&WindowOperators::reduce_log_sum>},
    {"ReduceLogSumExp", convert<&WindowOperators::reduce_log_sum_exp>}};

}  // namespace

std::span<const OnnxOperator> window_conversions() { return window_rows; }

}  // namespace qtape
