// Products of codes as operators: written with the requantization of their sums.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include "qtape/core/byte_order.h"
#include "qtape/integer/ops/integer_ops.h"
#include "qtape/ops/families/reduction.h"
#include "qtape/tflite/bounds.h"
#include "qtape/tflite/export/ops/structure.h"
#include "qtape/tflite/export/tflite_program.h"
#include "qtape/tflite/filters.h"

namespace qtape::tflite {
namespace {

constexpr std::string_view no_int4_of_int16 =
    "TensorFlow Lite Micro has no kernels of INT4 weights for INT16 codes";

/// Returns f32(s_x s_w) of each scale.
std::vector<float> bias_scales(const std::vector<float>& scales, const IntegerValue& x) {
  std::vector<float> all;
  for (const float each : scales) all.push_back(static_cast<float>(x.scales[0] * each));
  return all;
}

/// Returns the type in which TensorFlow Lite Micro sums products of codes like x: that of their
/// biases.
TfliteType sum_type(const IntegerValue& x) {
  return x.type.dtype == DType::S16 ? TfliteType::Int64 : TfliteType::Int32;
}

/// Adds the biases of an op, 0 if it has none: TensorFlow Lite Micro aborts on depthwise
/// convolutions without them.
int32_t add_bias(TfliteProgram& p, const QuantizedWeights& weights,
                 const std::vector<float>& scales, const IntegerValue& x) {
  const std::vector<int32_t> bias = weights.all_biases();
  ConstantData data{.name = p.part("bias"),
                    .type = TfliteType::Int32,
                    .shape = {std::ssize(bias)},
                    .scales = bias_scales(scales, x)};
  const auto set = [&](const auto& codes) {
    data.bytes = LittleEndian(std::span(codes)).copy();
  };
  if (x.type.dtype == DType::S16) {
    data.type = sum_type(x);
    set(std::vector<int64_t>(bias.begin(), bias.end()));
  } else {
    set(bias);
  }
  return p.add_constant(data);
}

std::vector<float> scales_of(const QuantizedWeights& weights) {
  const auto values = weights.scales.values<float>();
  return {values.begin(), values.end()};
}

/// Returns 4-bit codes in pairs, the first of them in the lower bits.
std::vector<std::byte> in_pairs(std::span<const int8_t> codes) {
  std::vector<std::byte> pairs((codes.size() + 1) / 2);
  for (size_t i = 0; i < codes.size(); ++i) {
    pairs[i / 2] |= std::byte(codes[i] & 15) << (i % 2 * 4);
  }
  return pairs;
}

/// Adds weights in rows of `shape`, in 4 bits if `bits` and TensorFlow Lite Micro allow it.
int32_t add_weights(TfliteProgram& p, std::span<const int8_t> codes, int bits,
                    std::vector<int64_t> shape, const std::vector<float>& scales, int axis) {
  ConstantData data{
      .name = p.part("weights"), .shape = std::move(shape), .scales = scales, .axis = axis};
  if (bits <= 4) {
    data.type = TfliteType::Int4;
    data.bytes = in_pairs(codes);
  } else {
    const auto bytes = std::as_bytes(codes);
    data.bytes = {bytes.begin(), bytes.end()};
  }
  return p.add_constant(data);
}

/// Returns the bits in which weights are written, 4 or 8. `reason`: why TensorFlow Lite Micro
/// has no kernel of INT4 weights, if it has none.
int written_bits(TfliteProgram& p, const QuantizedWeights& weights, std::string_view reason) {
  if (weights.storage_bits > 4) return 8;
  if (reason.empty()) return 4;
  p.note(
      fmt::format("weights of {} bits are written as INT8: {}", weights.storage_bits, reason));
  return 8;
}

/// True if a single scale of weights times that of x is rounded to another f32.
bool rounds_product(const std::vector<float>& scales, const IntegerValue& x) {
  const double product = x.scales[0] * double{scales[0]};
  return double{static_cast<float>(product)} != product;
}

/// Returns the scales by which a layer multiplies, S[c]: several select the product in f64, one
/// selects the product that is rounded to f32, and INT4.
std::vector<float> linear_scales(const integer::Linear& op, const IntegerValue& x) {
  std::vector<float> scales = scales_of(op.weights);
  check(!op.f32_scales || scales.size() == 1,
        "scales of products are rounded to f32, expected one scale");
  const bool exact = scales.size() == 1 && !rounds_product(scales, x);
  if (scales.size() == 1 && !op.f32_scales && !(exact && op.weights.storage_bits <= 4)) {
    scales.resize(static_cast<size_t>(op.weights.outputs()), scales[0]);
  }
  return scales;
}

/// True if FULLY_CONNECTED would round the scale of products to another f32.
bool rounds_scale(const integer::Linear& op, const std::vector<float>& scales,
                  const IntegerValue& x) {
  return !op.f32_scales && scales.size() == 1 && rounds_product(scales, x);
}

void write_mean(const integer::Sum& op, TfliteProgram& p, ProgramNodeId from,
                const CodeGrid& grid) {
  const IntegerValue& x = p.program()[from].value;
  check(op.mean, "is a sum, expected a mean");
  check(TfliteProgram::activation(grid) == Activation::None, "limits the codes of a mean");
  std::vector<int32_t> axes(op.axes.begin(), op.axes.end());
  for (int axis = 0; op.axes.empty() && axis < x.type.shape.rank(); ++axis) {
    axes.push_back(axis);
  }
  check_mean(reduced_terms(x.type.shape, op.axes), x, grid.scale);
  const int32_t numbers = p.add_numbers(p.part("axes"), axes, Shape{std::ssize(axes)});
  p.finish(Builtin::Mean, {p.same_type_tensor(from), numbers},
           ReducerOptions{.keep_dims = op.keep_dims});
}

/// Shape of codes as an image, of one row if they have one axis of positions.
Shape image(const Shape& shape) {
  return shape.rank() == 3 ? Shape{shape[0], 1, shape[1], shape[2]} : shape;
}

/// Adds the codes `x` of the tensor `from` in another shape.
int32_t reshaped(TfliteProgram& p, int32_t from, const IntegerValue& x, const Shape& shape) {
  const int32_t result = p.add_tensor(p.part("image"), x, shape);
  p.add_operator(Builtin::Reshape, {from}, result, ReshapeOptions{reshape_of(shape)});
  return result;
}

/// Adds x with padding that is neither SAME nor VALID.
int32_t add_border(TfliteProgram& p, int32_t from, const IntegerValue& x, const Shape& shape,
                   const Window& w) {
  const auto number = [](int64_t v) { return static_cast<int32_t>(v); };
  const std::vector<int32_t> pads = {
      0, 0, number(w.h.begin), number(w.h.end), number(w.w.begin), number(w.w.end), 0, 0};
  const int32_t numbers = p.add_numbers(p.part("paddings"), pads, Shape{4, 2});
  const Shape padded = {shape[0], shape[1] + w.h.begin + w.h.end,
                        shape[2] + w.w.begin + w.w.end, shape[3]};
  const int32_t result = p.add_tensor(p.part("padded"), x, padded);
  p.add_operator(Builtin::Pad, {from, numbers}, result);
  return result;
}

/// True if TensorFlow Lite pads an axis like this with SAME.
bool is_same(const WindowAxis& a) {
  const int64_t out = (a.in + a.stride - 1) / a.stride;
  const int64_t total = std::max<int64_t>(0, (out - 1) * a.stride + a.span() - a.in);
  return a.out == out && a.begin == total / 2;
}

bool is_valid(const WindowAxis& a) {
  return a.in >= a.span() && a.begin == 0 && a.out == (a.in - a.span()) / a.stride + 1;
}

/// Returns a stride or a dilation as an option of an operator.
int32_t step_of(int64_t value) {
  check(value <= std::numeric_limits<int32_t>::max(),
        "a stride or dilation of {} exceeds the s32 of TensorFlow Lite", value);
  return static_cast<int32_t>(value);
}

template <class O>
O conv_options(const Window& w, PaddingType padding, Activation activation) {
  O options;
  options.padding = padding;
  options.stride_h = step_of(w.h.stride);
  options.stride_w = step_of(w.w.stride);
  options.dilation_h = step_of(w.h.dilation);
  options.dilation_w = step_of(w.w.dilation);
  options.activation = activation;
  return options;
}

/// Adds the convolution of the image `from` to the tensor `to`.
void add_conv(const integer::Conv& op, TfliteProgram& p, int32_t from, int32_t to,
              const IntegerValue& x, const Window& w, PaddingType padding,
              Activation activation) {
  const int64_t channels = x.type.shape[-1];
  const int64_t outputs = op.weights.outputs();
  const std::vector<float> scales = scales_of(op.weights);
  const bool wide = x.type.dtype == DType::S16;
  const int bits = written_bits(p, op.weights, wide ? no_int4_of_int16 : std::string_view());
  if (op.groups == channels && channels > 1) {
    const int32_t weights =
        add_weights(p, transposed(op.weights.unpacked(), outputs, op.weights.terms()), bits,
                    {1, w.h.kernel, w.w.kernel, outputs}, scales, 3);
    auto options = conv_options<DepthwiseConv2dOptions>(w, padding, activation);
    options.depth_multiplier = static_cast<int32_t>(outputs / channels);
    const int32_t bias = add_bias(p, op.weights, scales, x);
    return p.add_operator(Builtin::DepthwiseConv2d, {from, weights, bias}, to, options);
  }
  const int32_t weights =
      add_weights(p, op.weights.unpacked(), bits,
                  {outputs, w.h.kernel, w.w.kernel, channels / op.groups}, scales, 0);
  const int32_t bias = add_bias(p, op.weights, scales, x);
  auto options = conv_options<Conv2dOptions>(w, padding, activation);
  if (wide) options.bias_type = sum_type(x);
  p.add_operator(Builtin::Conv2d, {from, weights, bias}, to, options);
}

void write_conv(const integer::Conv& op, TfliteProgram& p, ProgramNodeId source,
                const CodeGrid& grid) {
  const Activation activation = TfliteProgram::activation(grid);
  const IntegerValue& x = p.program()[source].value;
  const Shape in = image(x.type.shape);
  const bool one = x.type.shape.rank() == 3;
  const Window w = op.extents(x.type.shape).window;
  int32_t from = p.same_type_tensor(source);
  if (one) from = reshaped(p, from, x, in);
  const bool same = is_same(w.h) && is_same(w.w);
  if (!same && !(is_valid(w.h) && is_valid(w.w))) from = add_border(p, from, x, in, w);
  const PaddingType padding = same ? PaddingType::Same : PaddingType::Valid;
  if (!one) {
    const int32_t result = p.add_result();
    add_conv(op, p, from, result, x, w, padding, activation);
    return p.finish(result);
  }
  const int32_t row = p.add_tensor(p.part("row"), p.out(), image(p.out().type.shape));
  add_conv(op, p, from, row, x, w, padding, activation);
  p.finish(Builtin::Reshape, {row}, ReshapeOptions{reshape_of(p.out().type.shape)});
}

/// Writes a layer of one output as a convolution, which multiplies scales in f64.
void write_one_output(const integer::Linear& op, TfliteProgram& p, ProgramNodeId source,
                      const CodeGrid& grid) {
  const IntegerValue& x = p.program()[source].value;
  const int64_t samples = x.type.shape[0], terms = op.weights.terms();
  const int64_t rows = x.type.shape.elements() / std::max<int64_t>(samples * terms, 1);
  const integer::Conv conv{.weights = op.weights};
  const Shape in = {samples, 1, rows, terms};
  const int32_t from = reshaped(p, p.same_type_tensor(source), x, in);
  const int32_t row = p.add_tensor(p.part("row"), p.out(), in.with(3, 1));
  add_conv(conv, p, from, row, x, conv.extents(in).window, PaddingType::Valid,
           TfliteProgram::activation(grid));
  p.finish(Builtin::Reshape, {row}, ReshapeOptions{reshape_of(p.out().type.shape)});
}

void write_linear(const integer::Linear& op, TfliteProgram& p, ProgramNodeId from,
                  const CodeGrid& grid) {
  const IntegerValue& x = p.program()[from].value;
  const std::vector<float> scales = linear_scales(op, x);
  if (rounds_scale(op, scales, x)) return write_one_output(op, p, from, grid);
  FullyConnectedOptions options{.activation = TfliteProgram::activation(grid),
                                .keep_num_dims = x.type.shape.rank() != 2};
  if (x.type.dtype == DType::S16) options.bias_type = sum_type(x);
  std::string_view reason;
  if (x.type.dtype == DType::S16) reason = no_int4_of_int16;
  if (scales.size() > 1) {
    reason = scales_of(op.weights).size() > 1
                 ? "TensorFlow Lite Micro has no FULLY_CONNECTED of INT4 with a scale for each "
                   "output"
                 : "TensorFlow Lite Micro would round the product of the scales of weights and "
                   "operand to f32, unless one is a power of 2";
  }
  const int bits = written_bits(p, op.weights, reason);
  const int32_t weights = add_weights(p, op.weights.unpacked(), bits,
                                      {op.weights.outputs(), op.weights.terms()}, scales, 0);
  const int32_t bias = add_bias(p, op.weights, scales, x);
  p.finish(Builtin::FullyConnected, {p.same_type_tensor(from), weights, bias}, options);
}

/// Returns the convolution whose sums are those of the windows of `op`, times 1 / n: the
/// operator AVERAGE_POOL_2D rounds the mean of codes before it changes the scale.
integer::Conv average_conv(const integer::AvgPool& op, const IntegerValue& x) {
  const Window w = op.pool(x.type.shape).window;
  const int64_t n = w.kernel(), channels = x.type.shape[-1];
  const bool padded = w.h.begin > 0 || w.h.end > 0 || w.w.begin > 0 || w.w.end > 0;
  check(op.count_include_pad || !padded,
        "leaves out padding, so that divisors differ, expected `count_include_pad`");
  check(std::has_single_bit(static_cast<uint64_t>(n)),
        "divides by {}, expected a power of 2: TensorFlow Lite rounds 1/{} to f32", n, n);
  check(x.type.dtype != DType::S16,
        "divides sums of 16-bit codes, which TensorFlow Lite Micro multiplies with fewer bits");
  integer::Conv conv{
      .taps = op.kernel,
      .stride = op.stride.rank() > 0 ? op.stride : op.kernel,
      .dilation = Shape(std::vector<int64_t>(static_cast<size_t>(op.kernel.rank()), 1)),
      .padding = op.padding,
      .pads_begin = op.pads_begin,
      .pads_end = op.pads_end,
      .groups = channels};
  const std::vector<int8_t> ones(static_cast<size_t>(channels * n), 1);
  const float scale = 1 / static_cast<float>(n);
  conv.weights = pack_weights(ones, {channels, n}, 8, std::span(&scale, 1), {}, x);
  return conv;
}

}  // namespace

/// Products and sums are written with their requantization.
inline void write(const integer::Linear&, TfliteProgram&) {}
inline void write(const integer::Conv&, TfliteProgram&) {}
inline void write(const integer::Sum&, TfliteProgram&) {}
inline void write(const integer::AvgPool&, TfliteProgram&) {}

inline void write(const integer::Requantize& op, TfliteProgram& p) {
  // Only operands of means of unsigned codes, which are refused.
  if (!type_of_codes(op.grid.dtype)) return;
  if (const auto same = p.same_codes(op.grid)) return p.finish(*same);
  const IntegerNode& from = p.operand(0);
  if (const auto* sum = std::get_if<integer::Sum>(&from.op)) {
    return write_mean(*sum, p, from.operands[0], op.grid);
  }
  check_requantized(from.value, op.grid.scale);
  if (const auto* linear = std::get_if<integer::Linear>(&from.op)) {
    return write_linear(*linear, p, from.operands[0], op.grid);
  }
  if (const auto* conv = std::get_if<integer::Conv>(&from.op)) {
    return write_conv(*conv, p, from.operands[0], op.grid);
  }
  if (const auto* pool = std::get_if<integer::AvgPool>(&from.op)) {
    const integer::Conv conv = average_conv(*pool, p.program()[from.operands[0]].value);
    return write_conv(conv, p, from.operands[0], op.grid);
  }
  check(from.value.is_codes(), "TensorFlow Lite Micro does not round the sums of {} like this",
        name_of(from.op));
  const Activation activation = TfliteProgram::activation(op.grid);
  if (activation == Activation::None) {
    return p.finish(Builtin::Quantize, {p.tensor_of(p.node().operands[0])});
  }
  check(op.grid.scale == from.value.scales[0] && op.grid.zero_point == from.value.zero_point,
        "changes the scale and limits the codes, expected only one of these");
  check(activation != Activation::ReluN1To1,
        "TensorFlow Lite Micro has no operator RELU_N1_TO_1");
  p.finish(activation == Activation::Relu ? Builtin::Relu : Builtin::Relu6, {p.tensor(0)});
}

}  // namespace qtape::tflite
