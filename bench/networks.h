// The networks whose whole steps are measured.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/engine/tape.h"

namespace qtape::bench {

/// What a step of a network computes with.
enum class Arithmetics : uint8_t {
  Float,      ///< no quantizers
  Quantized,  ///< fake quantization to 8 bits
  Codes,      ///< the same, products of codes
  Bf16,       ///< the same, products of gradients in bf16
  Exact       ///< the same on the integers that ship
};

struct TrainedNetwork {
  std::string name;
  int64_t batch = 0;
  Graph graph;  ///< inputs x and labels; the one root is `loss`
};

/// A ReLU network of these widths. Quantized: weights per output by their own ranges,
/// activations unsigned by running averages.
TrainedNetwork make_mlp(std::span<const int64_t> widths, int64_t batch, bool quantized);
/// Convolutions 3x3 of 16 and 32 channels, each with a Relu and a maximum over 2x2, then a
/// layer; the peer's convolutional network.
TrainedNetwork make_small_cnn(int64_t batch, bool quantized);

/// The networks that `make_trained` knows by name.
std::vector<std::string> network_names();
/// One of them, or mlpA-B-C:N, a ReLU network of these widths at batch N, in which LxB stands
/// for L layers of width B. Throws ArgumentError for another name.
TrainedNetwork make_trained(std::string_view name, bool quantized);

/// Pixels between 0 and 1.
void fill_pixels(std::span<float> x);
/// The same, and labels.
void fill_batch(Tape& tape);

}  // namespace qtape::bench

namespace qtape {
template <>
inline constexpr auto enum_names<bench::Arithmetics> =
    std::array<std::string_view, 5>{"float", "quantized", "codes", "bf16", "exact"};
}  // namespace qtape
