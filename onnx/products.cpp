#include <fmt/format.h>

#include <algorithm>

#include "qtape/onnx/channels.h"
#include "qtape/onnx/operators.h"
#include "qtape/onnx/windows.h"

namespace qtape {

void OnnxOperators::linear(OnnxValue a, const std::string& name, std::vector<float> weight,
                           int64_t out, int64_t in, const std::vector<float>& bias,
                           const std::string& bias_name) {
  require<FormatError>(a.rank() >= 2 && a.shape.back() == in,
                       "the weight takes {} features, the input has [{}]", in,
                       fmt::join(a.shape, ", "));
  if (a.layout == OnnxLayout::Flat) {
    int64_t places = 1;
    for (size_t k = 1; k < a.flat.size(); ++k) places *= a.flat[k];
    weight = channels_behind(weight, out, a.flat[0], places);
  } else {
    a = to.to_same(a);
  }
  const std::string label = to.layer_label(name);
  const NodeId w = to.add_parameter(name, {out, in}, std::move(weight));
  NodeId y = to.add(MatMul{.transpose_b = true}, {a.id, w}, bias.empty() ? label : "");
  if (!bias.empty()) {
    const NodeId b = to.add_parameter(bias_name, {out}, bias);
    y = to.add(AddBias{}, {y, b}, label);
  }
  OnnxValue result{.id = y, .shape = a.shape};
  result.shape.back() = out;
  give(std::move(result));
}

void OnnxOperators::gemm() {
  node.expect("transA", 0);
  const OnnxConstant& b = to.constant(node, 1);
  require<FormatError>(b.is_float && b.shape.rank() == 2, "input 1 must be a matrix of floats");
  const bool rows = node.integer("transB", 0) != 0;
  const int64_t out = b.shape[rows ? 0 : 1];
  const int64_t in = b.shape[rows ? 1 : 0];
  const OnnxValue a = x();
  require<FormatError>(a.rank() == 2, "input 0 has rank {}, expected 2", a.rank());
  std::vector<float> weight = rows ? b.floats : transposed(b.floats, in, out);
  const float alpha = node.real("alpha", 1);
  for (float& each : weight) each *= alpha;
  std::vector<float> bias;
  if (to.has_input(node, 2)) {
    const OnnxConstant& c = to.constant(node, 2);
    const auto count = static_cast<int64_t>(c.floats.size());
    require<FormatError>(c.is_float && (count == out || count == 1),
                         "input 2 must hold {} floats", out);
    bias = count == out ? c.floats : std::vector<float>(static_cast<size_t>(out), c.floats[0]);
    const float beta = node.real("beta", 1);
    for (float& each : bias) each *= beta;
  }
  linear(a, node.input(1), std::move(weight), out, in, bias, node.input(2));
}

void OnnxOperators::matmul() {
  if (!to.is_constant(node.input(1))) {
    const OnnxValue a = to.to_same(x());
    const OnnxValue b = to.to_same(to.value(node, 1));
    const NodeId y = to.add(MatMul{}, {a.id, b.id});
    OnnxValue result{.id = y, .shape = a.shape};
    result.shape.back() = b.shape.back();
    return give(std::move(result));
  }
  const OnnxConstant& b = to.constant(node, 1);
  require<FormatError>(b.is_float && b.shape.rank() == 2, "input 1 must be a matrix of floats");
  const int64_t in = b.shape[0], out = b.shape[1];
  linear(x(), node.input(1), transposed(b.floats, in, out), out, in, {}, {});
}

void OnnxOperators::conv() {
  const OnnxValue a = to.to_channels_last(x());
  const OnnxConstant& w = to.constant(node, 1);
  const int axes = a.rank() - 2;
  require<FormatError>(w.is_float && w.shape.rank() == a.rank(),
                       "input 1 must be filters of rank {}", a.rank());
  const Windows windows = windows_of(node, axes);
  const int64_t out = w.shape[0], channels = w.shape[1];
  const std::vector<int64_t> kernel(w.shape.extents().begin() + 2, w.shape.extents().end());
  require<FormatError>(
      of_axes(node, "kernel_shape", kernel.size(), 0) == kernel || !node.has("kernel_shape"),
      "kernel_shape is not that of the filters");
  int64_t places = 1;
  for (const int64_t each : kernel) places *= each;
  std::vector<int64_t> extents = {out};
  extents.insert(extents.end(), kernel.begin(), kernel.end());
  extents.push_back(channels);
  const std::string label = to.layer_label(node.input(1));
  const NodeId filters = to.add_parameter(node.input(1), Shape(extents),
                                          channels_behind(w.floats, out, channels, places));
  const int64_t groups = node.integer("group", 1);
  const bool biased = to.has_input(node, 2);
  const std::string own = biased ? "" : label;
  NodeId y;
  if (axes == 2) {
    y = to.add(Conv2d{.stride = Shape(windows.strides),
                      .padding = windows.padding,
                      .pads_begin = Shape(windows.begin),
                      .pads_end = Shape(windows.end),
                      .dilation = Shape(windows.dilations),
                      .groups = groups},
               {a.id, filters}, own);
  } else {
    y = to.add(Conv1d{.stride = windows.strides[0],
                      .padding = windows.padding,
                      .pad_begin = windows.begin[0],
                      .pad_end = windows.end[0],
                      .dilation = windows.dilations[0],
                      .groups = groups},
               {a.id, filters}, own);
  }
  if (biased) {
    const NodeId b = to.add_parameter(node.input(2), {out}, to.floats(node, 2, out));
    y = to.add(AddBias{}, {y, b}, label);
  }
  const auto lies = to.graph_[y].type.shape.extents();
  OnnxValue result{.id = y, .shape = {1, out}, .layout = OnnxLayout::ChannelsLast};
  result.shape.insert(result.shape.end(), lies.begin() + 1, lies.end() - 1);
  give(std::move(result));
}

}  // namespace qtape
