// Products of codes with constant weights.
#include <array>

#include "qtape/core/printable.h"
#include "qtape/tflite/filters.h"
#include "qtape/tflite/import/program_reader.h"

namespace qtape::tflite {
namespace {

/// Throws unless the weights are symmetric, with one scale or one for each of `outputs` along
/// `axis`.
void check_weights(const TfliteTensor& w, int64_t outputs, int axis) {
  const std::string name = printable(w.name);
  const auto scales = std::ssize(w.scales);
  check(scales == 1 || scales == outputs, "weights '{}' have {} scales, expected 1 or {}", name,
        scales, outputs);
  check(scales == 1 || w.quantized_dimension == axis,
        "weights '{}' have scales along axis {}, expected {}", name, w.quantized_dimension,
        axis);
  for (const int64_t zero : w.zero_points) {
    check(zero == 0, "weights '{}' have the zero point {}, expected 0", name, zero);
  }
}

/// Returns the codes of weights, of 8 or 4 bits.
std::vector<int8_t> weight_codes(const ProgramReader& reader, const TfliteTensor& w) {
  const int64_t n = reader.shape_of(w).elements();
  if (w.type != TfliteType::Int4) {
    return reader.constants<int8_t>(w, TfliteType::Int8, n);
  }
  const auto data = reader.data_of(w, TfliteType::Int4, (n + 1) / 2);
  std::vector<int8_t> codes(static_cast<size_t>(n));
  for (size_t i = 0; i < codes.size(); ++i) {
    const int bits = (std::to_integer<int>(data[i / 2]) >> (4 * (i % 2))) & 15;
    codes[i] = static_cast<int8_t>(bits < 8 ? bits : bits - 16);
  }
  return codes;
}

/// Returns the biases of input 2, or none.
std::vector<int32_t> biases(const ProgramReader& reader, int64_t outputs) {
  if (!reader.has_input(2)) return {};
  return reader.constants<int32_t>(reader.input(2), TfliteType::Int32, outputs);
}

QuantizedWeights packed(ProgramReader& reader, std::span<const int8_t> codes,
                        const Shape& shape, const IntegerValue& x) {
  reader.use_weights(std::ssize(codes));
  const TfliteTensor& w = reader.input(1);
  return pack_weights(codes, shape, w.type == TfliteType::Int4 ? 4 : 8, w.scales,
                      biases(reader, shape[0]), x);
}

/// Adds the product and its requantization.
void finish_product(ProgramReader& reader, IntegerOp product, ProgramNodeId x,
                    Activation activation) {
  const CodeGrid grid = reader.output_grid(activation);
  const ProgramNodeId sums = reader.add(std::move(product), {x}, reader.input(1).name);
  reader.finish_requantized(sums, grid);
}

template <class O>
integer::Conv conv_of(const O& options, const Shape& taps, int64_t groups) {
  integer::Conv conv;
  conv.taps = taps;
  conv.stride = Shape{options.stride_h, options.stride_w};
  conv.dilation = Shape{options.dilation_h, options.dilation_w};
  conv.padding = padding_of(options.padding);
  conv.groups = groups;
  return conv;
}

/// Throws unless input 0 and the weights have four axes.
void check_axes(const ProgramReader& reader) {
  for (const size_t k : {size_t{0}, size_t{1}}) {
    check(reader.input(k).shape.size() == 4, "input {} has {} axes, expected 4", k,
          reader.input(k).shape.size());
  }
}

void read_conv(ProgramReader& reader) {
  reader.check_operands(2, 3);
  check_axes(reader);
  const auto options = reader.options<Conv2dOptions>();
  const ProgramNodeId x = reader.codes(0);
  const Shape w = reader.shape_of(reader.input(1));
  check_weights(reader.input(1), w[0], 0);
  const int64_t channels = reader.type_of(x).type.shape[3];
  check(channels > 0 && w[3] > 0 && channels % w[3] == 0 && w[0] % (channels / w[3]) == 0,
        "weights {} do not fit {} channels", to_string(w), channels);
  integer::Conv conv = conv_of(options, Shape{w[1], w[2]}, channels / w[3]);
  conv.weights = packed(reader, weight_codes(reader, reader.input(1)),
                        Shape{w[0], w[1] * w[2] * w[3]}, conv.factors(reader.type_of(x)));
  finish_product(reader, std::move(conv), x, options.activation);
}

/// Weights [1, h, w, outputs]; output `o` reads channel `o` divided by the multiplier.
void read_depthwise(ProgramReader& reader) {
  reader.check_operands(2, 3);
  check_axes(reader);
  const auto options = reader.options<DepthwiseConv2dOptions>();
  const ProgramNodeId x = reader.codes(0);
  const Shape w = reader.shape_of(reader.input(1));
  const int64_t channels = reader.type_of(x).type.shape[3];
  check(w[0] == 1 && channels > 0 && w[3] % channels == 0, "weights {} do not fit {} channels",
        to_string(w), channels);
  check(options.depth_multiplier == w[3] / channels, "has the depth multiplier {}, expected {}",
        options.depth_multiplier, w[3] / channels);
  check_weights(reader.input(1), w[3], 3);
  const int64_t taps = w[1] * w[2];
  const std::vector<int8_t> codes =
      transposed(weight_codes(reader, reader.input(1)), taps, w[3]);
  integer::Conv conv = conv_of(options, Shape{w[1], w[2]}, channels);
  conv.weights = packed(reader, codes, Shape{w[3], taps}, conv.factors(reader.type_of(x)));
  finish_product(reader, std::move(conv), x, options.activation);
}

void read_fully_connected(ProgramReader& reader) {
  reader.check_operands(2, 3);
  const auto options = reader.options<FullyConnectedOptions>();
  check(options.weights_format == WeightsFormat::Default,
        "has shuffled weights, expected rows of outputs");
  ProgramNodeId x = reader.codes(0);
  const Shape w = reader.shape_of(reader.input(1));
  check(w.rank() == 2, "weights have {} axes, expected 2", w.rank());
  check_weights(reader.input(1), w[0], 0);
  const Shape from = reader.type_of(x).type.shape;
  if (from.rank() < 1 || from[-1] != w[1] || (!options.keep_num_dims && from.rank() != 2)) {
    check(w[1] > 0 && from.elements() % w[1] == 0, "weights {} do not fit {}", to_string(w),
          to_string(from));
    check(!reader.batched() || from.elements() == w[1], "mixes samples: {} are rows of {}",
          to_string(from), w[1]);
    x = reader.add(integer::Reshape{qtape::Reshape{.shape = {-1, w[1]}}}, {x});
  }
  integer::Linear linear;
  linear.weights = packed(reader, weight_codes(reader, reader.input(1)), w, reader.type_of(x));
  linear.f32_scales = reader.input(1).scales.size() == 1;
  finish_product(reader, std::move(linear), x, options.activation);
}

}  // namespace

std::span<const OperatorReader> product_readers() {
  static constexpr std::array readers = {
      OperatorReader{Builtin::Conv2d, 8, read_conv},
      OperatorReader{Builtin::DepthwiseConv2d, 7, read_depthwise},
      OperatorReader{Builtin::FullyConnected, 13, read_fully_connected}};
  return readers;
}

}  // namespace qtape::tflite
