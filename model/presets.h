// Quantizers that reproduce those of other systems, for migration of models and for comparison.
#pragma once

#include <string_view>
#include <vector>

#include "qtape/ops/fake_quantize.h"

namespace qtape {

/// Quantizers of weights [out, in], per output channel, and of activations, per tensor. Each is
/// a value that can be copied with changes and used for any number of layers:
/// `presets::torch().weight.with(&FakeQuantize::bits, 4)`.
struct QuantizerPreset {
  FakeQuantize weight = {};
  FakeQuantize input = {};
};

/// Quantizers of other systems.
namespace presets {

/// rlx: ties away from zero, narrow codes, running average of the scale, range test on the
/// value.
QuantizerPreset rlx();
/// PyTorch's FakeQuantize module with the weights of its fbgemm and the activations of its
/// qnnpack configuration: x (1 / s), ties to even, symmetric s8 weights with max|x| / 127.5,
/// affine u8 activations, running averages of min and max, old + 0.01 (new - old), smallest
/// scale 2^-23. This is not get_default_qat_qconfig(), whose fused op uses 7-bit activations
/// and the weight scale max(|min| / 128, max / 127), computed in double.
QuantizerPreset torch();
/// oxicuda-quant: affine activations with codes 0 to 2^bits - 1, zero point added before
/// rounding, ties away from zero, symmetric weights with all codes, ranges of at least 1e-8.
/// Therefore the smallest scale depends on `bits`, 2..16, and is not updated by `with`. In
/// contrast to qtape, oxicuda-quant does not extend one-sided ranges to include 0.
QuantizerPreset oxicuda(int bits = 8);
/// baracuda: ties to even; x (1 / s) per tensor and x / s per channel, as in its kernels;
/// scales and zero points are given.
QuantizerPreset baracuda();
/// horizon_plugin_pytorch: symmetric, all codes, max|x| / 127.5, ties up like the hardware,
/// running averages of min and max, old + 0.01 (new - old).
QuantizerPreset horizon();
/// ONNX QuantizeLinear and DequantizeLinear: x / s, ties to even; scales and zero points are
/// given.
QuantizerPreset onnx();

/// Returns the names of the presets above, in order.
std::vector<std::string_view> names();
/// Returns the preset `name` with its defaults. Throws ArgumentError, which lists the names.
QuantizerPreset at(std::string_view name);

}  // namespace presets
}  // namespace qtape
