// Products with constant weights.
#include <array>
#include <cmath>

#include "qtape/core/printable.h"
#include "qtape/tflite/filters.h"
#include "qtape/tflite/import/layers.h"

namespace qtape::tflite {
namespace {

/// Throws unless the weights are floats for floats, or codes that are symmetric, with one scale
/// or one for each of `outputs` along `axis`.
void check_weights(const OperatorView& view, int64_t outputs, int axis) {
  const TfliteTensor& w = view.input(1);
  const std::string name = printable(w.name);
  if (w.type == TfliteType::Float32) {
    check(view.input(0).type == TfliteType::Float32,
          "weights '{}' are FLOAT32, expected INT8 or INT4 as for codes", name);
    return;
  }
  const auto scales = std::ssize(w.scales);
  check(scales == 1 || scales == outputs, "weights '{}' have {} scales, expected 1 or {}", name,
        scales, outputs);
  check(scales == 1 || w.quantized_dimension == axis,
        "weights '{}' have scales along axis {}, expected {}", name, w.quantized_dimension,
        axis);
  for (const int64_t zero : w.zero_points) {
    check(zero == 0, "weights '{}' have the zero point {}, expected 0", name, zero);
  }
  for (const float scale : w.scales) {
    check(std::isnormal(scale) && scale > 0,
          "weights '{}' have the scale {}, expected a positive normal number", name, scale);
  }
}

/// Returns the codes of weights, of 8 or 4 bits.
std::vector<int8_t> weight_codes(const OperatorView& view, const TfliteTensor& w) {
  const int64_t n = view.shape_of(w).elements();
  if (w.type != TfliteType::Int4) {
    return view.constants<int8_t>(w, TfliteType::Int8, n);
  }
  const auto data = view.data_of(w, TfliteType::Int4, (n + 1) / 2);
  std::vector<int8_t> codes(static_cast<size_t>(n));
  for (size_t i = 0; i < codes.size(); ++i) {
    const int bits = (std::to_integer<int>(data[i / 2]) >> (4 * (i % 2))) & 15;
    codes[i] = static_cast<int8_t>(bits < 8 ? bits : bits - 16);
  }
  return codes;
}

/// Returns the biases of INT16 codes, whose sums have 64 bits.
std::vector<int32_t> wide_biases(const OperatorView& view, int64_t outputs) {
  const TfliteTensor& bias = view.input(2);
  check(bias.type != TfliteType::Int32,
        "biases '{}' are INT32, which sums INT16 codes in 32 bits, expected INT64",
        printable(bias.name));
  std::vector<int32_t> codes;
  for (const int64_t each : view.constants<int64_t>(bias, TfliteType::Int64, outputs)) {
    check(each == static_cast<int32_t>(each), "biases '{}' have the code {}, expected 32 bits",
          printable(bias.name), each);
    codes.push_back(static_cast<int32_t>(each));
  }
  return codes;
}

/// Reads the bias of input 2, if there is one: codes if the product adds codes.
void read_bias(const OperatorView& view, ProductWeights& weights) {
  if (!view.has_input(2)) return;
  const int64_t outputs = weights.shape[0];
  if (view.input(0).type == TfliteType::Float32) {
    weights.bias_values = view.constants<float>(view.input(2), TfliteType::Float32, outputs);
  } else if (view.input(0).type == TfliteType::Int16) {
    weights.bias_codes = wide_biases(view, outputs);
  } else {
    weights.bias_codes = view.constants<int32_t>(view.input(2), TfliteType::Int32, outputs);
  }
}

/// Throws if the sums of INT16 codes without a bias have 32 bits.
template <class O>
void check_wide_sums(const OperatorView& view, const O& options) {
  if (view.input(0).type != TfliteType::Int16 || view.has_input(2)) return;
  check(options.bias_type != TfliteType::Int32,
        "sums INT16 codes in 32 bits (quantized_bias_type), expected 64");
}

/// Reads weights whose outputs lie along `axis`, 0 or the last, and which have `shape` with the
/// outputs first.
ProductWeights read_weights(OperatorView& view, const Shape& shape, int axis) {
  const TfliteTensor& w = view.input(1);
  check_weights(view, shape[0], axis);
  view.use_weights(shape.elements());
  ProductWeights weights{.shape = shape, .scales = w.scales};
  const auto in_rows = [&](auto numbers) {
    const int64_t outputs = shape[0];
    if (axis == 0 || outputs == 0) return numbers;
    return transposed(numbers, shape.elements() / outputs, outputs);
  };
  if (w.type == TfliteType::Float32) {
    weights.bits = 0;
    weights.values = in_rows(view.constants<float>(w, TfliteType::Float32, shape.elements()));
  } else {
    if (w.type == TfliteType::Int4) {
      check(view.input(0).type != TfliteType::Int16,
            "weights '{}' are INT4, expected INT8 for codes of INT16", printable(w.name));
      weights.bits = 4;
    }
    weights.codes = in_rows(weight_codes(view, w));
  }
  read_bias(view, weights);
  return weights;
}

template <class O>
ConvLayer conv_of(const O& options, const Shape& filters, int64_t groups) {
  return {.taps = {filters[1], filters[2]},
          .stride = {options.stride_h, options.stride_w},
          .dilation = {options.dilation_h, options.dilation_w},
          .padding = padding_of(options.padding),
          .groups = groups,
          .activation = options.activation};
}

/// Throws unless input 0 and the weights have four axes.
void check_axes(const OperatorView& view) {
  for (const size_t k : {size_t{0}, size_t{1}}) {
    check(view.input(k).shape.size() == 4, "input {} has {} axes, expected 4", k,
          view.input(k).shape.size());
  }
}

Layer read_conv(OperatorView& view) {
  view.check_operands(2, 3);
  check_axes(view);
  const auto options = view.options<Conv2dOptions>();
  const Shape w = view.shape_of(view.input(1));
  const int64_t channels = view.shape_of(view.input(0))[3];
  check(channels > 0 && w[3] > 0 && channels % w[3] == 0 && w[0] % (channels / w[3]) == 0,
        "weights {} do not fit {} channels", to_string(w), channels);
  check_wide_sums(view, options);
  ConvLayer conv = conv_of(options, w, channels / w[3]);
  conv.weights = read_weights(view, w, 0);
  return conv;
}

/// Weights [1, h, w, outputs]; output `o` reads channel `o` divided by the multiplier.
Layer read_depthwise(OperatorView& view) {
  view.check_operands(2, 3);
  check_axes(view);
  const auto options = view.options<DepthwiseConv2dOptions>();
  const Shape w = view.shape_of(view.input(1));
  const int64_t channels = view.shape_of(view.input(0))[3];
  check(w[0] == 1 && channels > 0 && w[3] % channels == 0, "weights {} do not fit {} channels",
        to_string(w), channels);
  check(options.depth_multiplier == w[3] / channels, "has the depth multiplier {}, expected {}",
        options.depth_multiplier, w[3] / channels);
  ConvLayer conv = conv_of(options, w, channels);
  conv.weights = read_weights(view, {w[3], w[1], w[2], 1}, 3);
  return conv;
}

Layer read_fully_connected(OperatorView& view) {
  view.check_operands(2, 3);
  const auto options = view.options<FullyConnectedOptions>();
  check(options.weights_format == WeightsFormat::Default,
        "has shuffled weights, expected rows of outputs");
  check_wide_sums(view, options);
  const Shape w = view.shape_of(view.input(1));
  check(w.rank() == 2, "weights have {} axes, expected 2", w.rank());
  LinearLayer linear{.activation = options.activation};
  const Shape from = view.shape_of(view.input(0));
  if (from.rank() < 1 || from[-1] != w[1] || (!options.keep_num_dims && from.rank() != 2)) {
    check(w[1] > 0 && from.elements() % w[1] == 0, "weights {} do not fit {}", to_string(w),
          to_string(from));
    check(!view.batched() || from.elements() == w[1], "mixes samples: {} are rows of {}",
          to_string(from), w[1]);
    linear.flattened = true;
  }
  linear.weights = read_weights(view, w, 0);
  return linear;
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
