#include <fmt/format.h>

#include <algorithm>

#include "qtape/onnx/import/channels.h"
#include "qtape/onnx/import/operators.h"
#include "qtape/onnx/import/windows.h"

namespace qtape {
namespace {

struct ProductOperators : OnnxOperators {
  void gemm();
  void matmul();
  void conv();
  void conv_transpose();

  void linear(OnnxValue a, const std::string& name, std::vector<float> weight, int64_t out,
              int64_t in, const std::vector<float>& bias, const std::string& bias_name);
  void give_biased(NodeId y, int64_t out, const std::string& label, bool one_axis = false);
  NodeId transposed_conv(const OnnxValue& a, const OnnxConstant& w, int64_t groups,
                         const std::string& label);
};

}  // namespace

void ProductOperators::linear(OnnxValue a, const std::string& name, std::vector<float> weight,
                              int64_t out, int64_t in, const std::vector<float>& bias,
                              const std::string& bias_name) {
  require<FormatError>(a.rank() >= 2 && a.shape.back() == in,
                       "the weight expects {} features, the input has [{}]", in,
                       fmt::join(a.shape, ", "));
  if (a.layout == OnnxLayout::Flat) {
    int64_t places = 1;
    for (size_t k = 1; k < a.flat.size(); ++k) places *= a.flat[k];
    weight = channels_behind(weight, out, a.flat[0], places);
  } else {
    a = to.to_same(a);
  }
  const std::string label = to.layer_label(node);
  const NodeId w = to.add_parameter(name, {out, in}, std::move(weight), label, "weight");
  NodeId y = to.add(MatMul{.transpose_b = true}, {a.id, w}, bias.empty() ? label : "");
  if (!bias.empty()) {
    const NodeId b = to.add_parameter(bias_name, {out}, bias, label, "bias");
    y = to.add(AddBias{}, {y, b}, label);
  }
  OnnxValue result{.id = y, .shape = a.shape};
  result.shape.back() = out;
  give(std::move(result));
}

void ProductOperators::gemm() {
  expect_attribute("transA", 0);
  const bool rows = node.integer("transB", 0) != 0;
  const float alpha = node.real("alpha", 1), beta = node.real("beta", 1);
  expect_weights(1, 2, "a matrix of floats");
  if (to.has_input(node, 2)) expect_weights(2, 0, "floats");
  const OnnxValue a = x();
  const OnnxConstant& b = to.constant(node, 1);
  require<FormatError>(
      !b.codes || (alpha == 1 && beta == 1),
      "alpha {} and beta {} with quantized weights are not supported, expected "
      "1 and 1",
      alpha, beta);
  const int64_t out = b.shape[rows ? 0 : 1];
  const int64_t in = b.shape[rows ? 1 : 0];
  require<FormatError>(a.rank() == 2, "input 0 has rank {}, expected 2", a.rank());
  std::vector<float> weight = rows ? b.floats : transposed(b.floats, in, out);
  for (float& each : weight) each *= alpha;
  std::vector<float> bias;
  if (to.has_input(node, 2)) {
    const OnnxConstant& c = to.constant(node, 2);
    const int64_t count = c.shape.elements();
    const bool row = count == 1 || (count == out && c.shape[-1] == out);
    require<FormatError>(c.is_float && c.shape.rank() <= 2 && row,
                         "input 2 must hold {} floats in one row, got {}", out,
                         to_string(c.shape));
    bias = count == out ? c.floats : std::vector<float>(static_cast<size_t>(out), c.floats[0]);
    for (float& each : bias) each *= beta;
  }
  linear(a, node.input(1), std::move(weight), out, in, bias, node.input(2));
}

void ProductOperators::matmul() {
  if (constant_input()) return matmul_left();
  if (!to.is_constant(node.input(1))) {
    OnnxValue a = to.to_same(x());
    OnnxValue b = to.to_same(operand(1));
    require<OnnxMixedSamples>(
        a.rank() == b.rank() && a.rank() >= 3,
        "inputs of {} and {} would mix samples: expected equal ranks of at "
        "least 3",
        extents_text(a.shape), extents_text(b.shape));
    for (size_t k = 1; k + 2 < a.shape.size(); ++k) {
      if (a.shape[k] == b.shape[k]) continue;
      if (a.shape[k] == 1) a = to.repeated(std::move(a), k, b.shape[k]);
      if (b.shape[k] == 1) b = to.repeated(std::move(b), k, a.shape[k]);
    }
    const NodeId y = to.add(MatMul{}, {a.id, b.id}, to.node_label(node, "matmul"));
    OnnxValue result{.id = y, .shape = a.shape};
    result.shape.back() = b.shape.back();
    return give(std::move(result));
  }
  const OnnxConstant& b = to.constant(node, 1);
  bool single = true;  // a matrix for all samples
  for (int k = 0; k + 2 < b.shape.rank(); ++k) single = single && b.shape[k] == 1;
  require<FormatError>(b.is_float && b.shape.rank() >= 2 && single,
                       "input 1 must be a matrix of floats");
  require<FormatError>(b.shape.rank() <= to.value(node, 0).rank(),
                       "input 1 of {} has more axes than input 0", to_string(b.shape));
  const int64_t in = b.shape[-2], out = b.shape[-1];
  linear(x(), node.input(1), transposed(b.floats, in, out), out, in, {}, {});
}

void ProductOperators::conv() {
  expect_auto_pad();
  const int64_t groups = node.integer("group", 1);
  expect_weights(1, 0, "filters");
  const OnnxValue a = to.to_channels_last(x());
  const OnnxConstant& w = to.constant(node, 1);
  require<FormatError>(w.is_float && w.shape.rank() == a.rank(),
                       "input 1 must be filters of rank {}", a.rank());
  const int64_t out = w.shape[0], channels = w.shape[1];
  const std::vector<int64_t> kernel(w.shape.extents().begin() + 2, w.shape.extents().end());
  require<FormatError>(
      of_axes(node, "kernel_shape", kernel.size(), 0) == kernel || !node.has("kernel_shape"),
      "kernel_shape is not that of the filters");
  const Windows over = windows(a.shape, kernel);
  int64_t places = 1;
  for (const int64_t each : kernel) places *= each;
  std::vector<int64_t> extents = {out};
  extents.insert(extents.end(), kernel.begin(), kernel.end());
  extents.push_back(channels);
  const std::string label = to.layer_label(node);
  const NodeId filters =
      to.add_parameter(node.input(1), Shape(extents),
                       channels_behind(w.floats, out, channels, places), label, "weight");
  const bool biased = to.has_input(node, 2);
  const std::string own = biased ? "" : label;
  NodeId y;
  if (kernel.size() == 2) {
    y = to.add(Conv2d{.stride = Shape(over.strides),
                      .padding = over.padding,
                      .pads_begin = Shape(over.begin),
                      .pads_end = Shape(over.end),
                      .dilation = Shape(over.dilations),
                      .groups = groups},
               {a.id, filters}, own);
  } else {
    y = to.add(Conv1d{.stride = over.strides[0],
                      .padding = over.padding,
                      .pad_begin = over.begin[0],
                      .pad_end = over.end[0],
                      .dilation = over.dilations[0],
                      .groups = groups},
               {a.id, filters}, own);
  }
  give_biased(y, out, label);
}

/// Adds the bias of input 2 to the channels of `y`, and sets the output, without the rows of
/// `y` if there is `one_axis`.
void ProductOperators::give_biased(NodeId y, int64_t out, const std::string& label,
                                   bool one_axis) {
  if (to.has_input(node, 2)) {
    const NodeId b =
        to.add_parameter(node.input(2), {out}, to.floats(node, 2, out), label, "bias");
    y = to.add(AddBias{}, {y, b}, label);
  }
  if (one_axis) {
    const Shape& shape = to.graph()[y].type.shape;
    y = to.add(Reshape{.shape = {-1, shape[2], out}}, {y});
  }
  give_channels_last(y, out);
}

namespace {

/// Returns the filters [in, out per group, places] of a transposed convolution as [out, places,
/// in per group].
std::vector<float> transposed_filters(const OnnxConstant& w, int64_t groups) {
  const int64_t in = w.shape[0] / groups, out = w.shape[1];
  const int64_t places = w.shape.elements() / (w.shape[0] * out);
  std::vector<float> result;
  result.reserve(w.floats.size());
  for (int64_t o = 0; o < out * groups; ++o) {
    for (int64_t p = 0; p < places; ++p) {
      for (int64_t c = 0; c < in; ++c) {
        const int64_t row = (o / out) * in + c;
        result.push_back(w.floats[static_cast<size_t>((row * out + o % out) * places + p)]);
      }
    }
  }
  return result;
}

}  // namespace

/// Transposed convolutions over one axis are those of images with one row.
void ProductOperators::conv_transpose() {
  const int64_t groups = node.integer("group", 1);
  const std::string automatic = node.text("auto_pad", "NOTSET");
  expect(automatic == "NOTSET" || automatic == "VALID", "auto_pad {} is not supported",
         printable(automatic));
  expect(!node.has("output_shape"), "attribute output_shape is not supported");
  expect_weights(1, 0, "filters");
  OnnxValue a = to.to_channels_last(x());
  const OnnxConstant& w = to.constant(node, 1);
  require<FormatError>(w.shape.rank() == a.rank(), "input 1 must be filters of rank {}",
                       a.rank());
  require<FormatError>(groups >= 1 && w.shape.elements() > 0 && w.shape[0] % groups == 0,
                       "{} channels cannot be divided into {} groups", w.shape[0], groups);
  const std::vector<int64_t> kernel(w.shape.extents().begin() + 2, w.shape.extents().end());
  require<FormatError>(
      !node.has("kernel_shape") || of_axes(node, "kernel_shape", kernel.size(), 0) == kernel,
      "kernel_shape is not that of the filters");
  const bool one_axis = a.rank() == 3;
  if (one_axis) {
    const Shape& shape = to.graph()[a.id].type.shape;
    a.id = to.add(Reshape{.shape = {-1, 1, shape[1], shape[2]}}, {a.id});
  }
  const std::string label = to.layer_label(node);
  const NodeId y = transposed_conv(a, w, groups, label);
  give_biased(y, onnx_product(w.shape[1], groups), label, one_axis);
}

NodeId ProductOperators::transposed_conv(const OnnxValue& a, const OnnxConstant& w,
                                         int64_t groups, const std::string& label) {
  const size_t axes = a.shape.size() - 2;
  const Windows over = windows_of(node, static_cast<int>(axes));
  const auto pair = [&](const std::vector<int64_t>& numbers, int64_t first) {
    return axes == 2 ? Shape(numbers) : Shape{first, numbers[0]};
  };
  const std::vector<int64_t> kernel(w.shape.extents().begin() + 2, w.shape.extents().end());
  const Shape window = pair(kernel, 1);
  const NodeId filters = to.add_parameter(
      node.input(1),
      {onnx_product(w.shape[1], groups), window[0], window[1], w.shape[0] / groups},
      transposed_filters(w, groups), label, "weight");
  return to.add(
      ConvTranspose2d{.stride = pair(over.strides, 1),
                      .padding = over.padding,
                      .pads_begin = pair(over.begin, 0),
                      .pads_end = pair(over.end, 0),
                      .dilation = pair(over.dilations, 1),
                      .groups = groups,
                      .output_padding = pair(of_axes(node, "output_padding", axes, 0), 0)},
      {a.id, filters}, to.has_input(node, 2) ? "" : label);
}

namespace {

constexpr OnnxOperator product_rows[] = {
    {"Gemm", convert<&ProductOperators::gemm>},
    {"MatMul", convert<&ProductOperators::matmul>},
    {"Conv", convert<&ProductOperators::conv>},
    {"ConvTranspose", convert<&ProductOperators::conv_transpose>}};

}  // namespace

std::span<const OnnxOperator> product_conversions() { return product_rows; }

}  // namespace qtape
