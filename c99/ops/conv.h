// Conv in C99.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "qtape/c99/c_grid.h"
#include "qtape/c99/c_products.h"
#include "qtape/c99/c_source.h"
#include "qtape/integer/ops/integer_ops.h"

namespace qtape {
namespace {

/// Returns the type of codes of `x` with their zero point subtracted.
DType c_differences(const IntegerValue& x) {
  const int64_t most =
      std::max(std::abs(x.low - x.zero_point), std::abs(x.high - x.zero_point));
  return most <= Certificate::s16_limit ? DType::S16 : DType::S32;
}

/// True if each channel has a filter of its own.
bool is_depthwise(const Convolution& c) {
  return c.groups > 1 && c.inputs() == 1 && c.outputs() == 1;
}

int64_t padded_terms(int64_t terms) { return (terms + c_lanes - 1) / c_lanes * c_lanes; }

/// Returns the C type that holds the sums of all windows of `x`, including partial sums and
/// bias.
std::string c_sums(const QuantizedWeights& weights, const IntegerValue& x) {
  const std::vector<int8_t> w = weights.unpacked();
  const std::vector<int32_t> biases = weights.biases();
  const auto k = static_cast<size_t>(weights.terms());
  int64_t most = 0;
  for (size_t c = 0; c < static_cast<size_t>(weights.outputs()); ++c) {
    const AccumulatorRange range = accumulator_range(std::span(w).subspan(c * k, k), 0, x);
    const int64_t bias = biases.empty() ? 0 : std::abs(int64_t{biases[c]});
    most = std::max({most, bias - range.low, bias + range.high});
  }
  return most <= Certificate::s32_limit ? "int32_t" : "int64_t";
}

/// Transposes weights [channels, taps] to [taps, channels].
std::vector<int8_t> by_tap(const std::vector<int8_t>& weights, size_t channels) {
  const size_t taps = weights.size() / channels;
  std::vector<int8_t> all(weights.size());
  for (size_t c = 0; c < channels; ++c) {
    for (size_t t = 0; t < taps; ++t) all[t * channels + c] = weights[c * taps + t];
  }
  return all;
}

/// Returns the kernel that gathers windows. Short lines use a kernel with a constant length,
/// which compilers unroll.
std::string gather_kernel(CNode& node, const Convolution& c, const std::string& code,
                          const std::string& difference) {
  constexpr int64_t few = 16;
  const int64_t line = c.window.w.kernel * c.inputs();
  if (line >= few) {
    return node.source.kernel(
        "gather", code, {{"X", code}, {"V", difference}, {"LINE", "g->kernel_w * count"}});
  }
  return node.source.kernel(
      "gather", fmt::format("{}_{}", line, code),
      {{"X", code}, {"V", difference}, {"LINE", fmt::format("{}", line)}});
}

/// Returns the largest buffer that arm_convolve_wrapper_s8 and arm_depthwise_conv_wrapper_s8
/// need on any path. The actual size is queried again at run time.
CBuffer cmsis_buffer(const Convolution& c) {
  const auto& [h, w] = c.window;
  const int64_t taps = c.window.kernel();
  if (is_depthwise(c)) {
    constexpr int64_t block = 124;  // CH_IN_BLOCK_MVE
    return {.dsp = 2 * c.in_channels * taps, .helium = 4 * block * taps};
  }
  const int64_t terms = taps * c.inputs();
  const int64_t whole = taps * c.in_channels;
  const int64_t plain = 4 * ((whole + 3) / 4 * 4);
  const int64_t line = (2 * w.kernel + w.begin + w.out) * c.in_channels;  // of 1 x n
  return {.plain = plain,
          .dsp = plain,
          .helium = std::max(4 * std::max(padded_terms(terms), padded_terms(whole)), line)};
}

bool is_row(const Window& window) { return window.h.in == 1 && window.h.kernel == 1; }

/// Returns the number of rows or columns of padding that the last window covers at the end.
int64_t end_padding(const WindowAxis& a) {
  return (a.out - 1) * a.stride + a.span() - a.in - a.begin;
}

/// Returns the window with rows turned into columns if they have padding. On Helium,
/// arm_convolve_1_x_n_s8 of CMSIS-NN 7.0 reads past the end of a row if windows cover more than
/// one column of padding there.
Window upright(Window window) {
  if (is_row(window) && window.has_padding()) std::swap(window.h, window.w);
  return window;
}

/// True if CMSIS-NN runs arm_depthwise_conv_3x3_s8, which reads the second column of a window
/// even if it is outside x.
bool is_three_by_three(const Window& window) {
  const auto& [h, w] = window;
  return h.kernel == 3 && w.kernel == 3 && h.dilation == 1 && w.dilation == 1 && h.begin <= 1 &&
         w.begin <= 1;
}

/// Why CMSIS-NN does not run it, which 7.0 computes otherwise in some cases; empty where it
/// does.
std::string conv_not_by_cmsis_nn(const integer::Conv& op, const CUse& use) {
  const Convolution c = op.extents(use.x->type.shape);
  const Window window = upright(c.window);
  if (is_row(c.window) && c.window.h.out != 1) {
    return "CMSIS-NN treats rows of padding around a single row differently";
  }
  if (c.window.kernel() == 1 && c.window.has_padding()) {
    return "CMSIS-NN ignores the padding of windows of one element";
  }
  if (is_depthwise(c) && is_three_by_three(window) && end_padding(window.w) > 1) {
    return "CMSIS-NN's depthwise 3 x 3 reads past more than one column of padding";
  }
  return not_by_cmsis_nn(use, op.weights);
}

bool is_by_cmsis_nn(const integer::Conv& op, const CUse& use) {
  return use.kernels == CKernels::CmsisNn && conv_not_by_cmsis_nn(op, use).empty();
}

void write_cmsis(const integer::Conv& op, CNode& node) {
  const IntegerValue& x = node.in(0);
  Convolution c = op.extents(x.type.shape);
  c.window = upright(c.window);
  const std::vector<int8_t> codes = op.weights.unpacked();
  const std::string window = write_window(node, c.images, c.in_channels, c.window);
  const std::string bias =
      node.source.array<int32_t>(node.name, "bias", op.weights.all_biases());
  const std::string grid = cmsis_grid(node, node.out(), *node.grid(), c.out_channels);
  const std::string bytes = node.macro("BUFFER_BYTES");
  const bool once = rounds_once(node.requantization);
  node.source.lend(cmsis_buffer(c));
  // Buffer for the check, whose convolution is small.
  node.source.lend({.plain = 64, .dsp = 64, .helium = 512});
  if (is_depthwise(c)) {
    const auto rows = by_tap(codes, static_cast<size_t>(c.in_channels));
    const CWeights w = write_weights(node, rows, op.weights.terms(), 8, 0);
    node.call_library("arm_depthwise_conv_wrapper_s8", "cmsis_depthwise", node.operands[0],
                      node.result, window, x.zero_point, w.array, bias, node.buffer, bytes,
                      grid);
    node.source.check_rounding("cmsis_check_depthwise",
                               node.source.kernel("cmsis_depthwise", ""), once);
    return;
  }
  const CWeights w = write_weights(node, codes, op.weights.outputs(), 8, 0);
  node.call_library("arm_convolve_wrapper_s8", "cmsis_conv", node.operands[0], node.result,
                    window, x.zero_point, c.groups, c.out_channels, w.array, bias, node.buffer,
                    bytes, grid);
  node.source.check_rounding("cmsis_check_conv", node.source.kernel("cmsis_conv", ""), once);
}

}  // namespace

inline int64_t scratch(const integer::Conv& op, const CUse& use) {
  if (is_by_cmsis_nn(op, use)) return 0;
  const Convolution c = op.extents(use.x->type.shape);
  return is_depthwise(c) ? 0
                         : padded_terms(op.weights.terms()) * size_of(c_differences(*use.x));
}

inline void write(const integer::Conv& op, CNode& node) {
  const IntegerValue& x = node.in(0);
  const QuantizedWeights& weights = op.weights;
  node.own_because = conv_not_by_cmsis_nn(op, node.use());
  if (is_by_cmsis_nn(op, node.use())) return write_cmsis(op, node);
  const Convolution c = op.extents(x.type.shape);
  const int bits = weights.storage_bits;
  const std::string sum = c_sums(weights, with_zero_point(x));
  const std::string code(c_type(x.type.dtype));
  const std::string difference(c_type(c_differences(x)));
  const CStore store = node.store(sum);
  const std::vector<int32_t> all = weights.all_biases();
  const std::vector<int64_t> biases(all.begin(), all.end());
  const COffsets bias = write_offsets(node, "bias", biases);
  const std::string window = write_window(node, c.images, c.in_channels, c.window);
  const std::string variant = fmt::format("{}_{}", code, store.type);
  CParameters parameters = {{"X", code},          {"Y", store.type}, {"ACC", sum},
                            {"V", difference},    {"TO", store.to},  {"STORE", store.function},
                            {"OFFSET", bias.type}};
  if (is_depthwise(c)) {
    const auto rows = by_tap(weights.unpacked(), static_cast<size_t>(c.in_channels));
    const CWeights w = write_weights(node, rows, weights.terms(), bits, 0);
    parameters.emplace_back("W", w.type);
    parameters.emplace_back("EACH", fmt::format("{}", 8 / bits));
    parameters.emplace_back("PRODUCTS", depthwise_products(node, bits, code, sum, difference));
    const std::string depthwise =
        node.source.kernel("depthwise", fmt::format("{}_{}", variant, bits), parameters);
    node.call(depthwise, node.operands[0], node.result, window, x.zero_point, w.array, w.row,
              bias.array, store.argument);
    return;
  }
  const CWeights w = write_weights(node, weights.unpacked(), weights.outputs(), bits, c_lanes);
  parameters.emplace_back("W", w.type);
  parameters.emplace_back("DOT", dot_kernel(node, bits, difference, sum));
  parameters.emplace_back("GATHER", gather_kernel(node, c, code, difference));
  const std::string conv = node.source.kernel("conv", variant, parameters);
  node.call(conv, node.operands[0], node.result, window, x.zero_point, op.groups,
            weights.outputs(), weights.terms(), padded_terms(weights.terms()), w.array, w.row,
            bias.array, node.scratch_of(c_differences(x)), store.argument);
}

}  // namespace qtape
