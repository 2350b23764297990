// Networks whose training steps are measured.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/engine/tape.h"

namespace qtape::bench {

/// Arithmetic of a training step.
enum class Arithmetics : uint8_t {
  Float,      ///< no quantizers
  Quantized,  ///< fake quantization to 8 bits
  Codes,      ///< fake quantization with products of codes
  Bf16,       ///< fake quantization with products of gradients in bf16
  Exact       ///< the integer ops that are deployed
};

struct TrainedNetwork {
  std::string name;
  int64_t batch = 0;
  Graph graph;  ///< inputs x and labels; the one root is `loss`
};

/// Returns a ReLU network of these widths. If quantized, weights are quantized per output by
/// their own ranges, activations unsigned by running averages.
TrainedNetwork make_mlp(std::span<const int64_t> widths, int64_t batch, bool quantized);
/// Returns 3x3 convolutions with 16 and 32 channels, each followed by Relu and 2x2 max-pooling,
/// then a dense layer: the convolutional network of the peer.
TrainedNetwork make_small_cnn(int64_t batch, bool quantized);

/// Returns the names of the networks that `make_trained` supports.
std::vector<std::string> network_names();
/// Returns a network by name, or mlpA-B-C:N, a ReLU network of these widths with batch N, in
/// which LxB means L layers of width B. Throws ArgumentError for other names.
TrainedNetwork make_trained(std::string_view name, bool quantized);

/// Fills x with pixels between 0 and 1.
void fill_pixels(std::span<float> x);
/// Fills pixels and labels.
void fill_batch(Tape& tape);

}  // namespace qtape::bench

namespace qtape {
template <>
inline constexpr auto enum_names<bench::Arithmetics> =
    std::array<std::string_view, 5>{"float", "quantized", "codes", "bf16", "exact"};
}  // namespace qtape
