// Quantizers that compute what other systems compute: for moving models, and for comparing.
#pragma once

#include <string_view>
#include <vector>

#include "qtape/ops/fake_quantize.h"

namespace qtape {

/// Quantizers of weights [out, in], by output channel, and of activations, by tensor. Each is a
/// value to be copied with changes, `presets::torch().weight.with(&FakeQuantize::bits, 4)`, and
/// given to any number of layers.
struct QuantizerPreset {
  FakeQuantize weight = {};
  FakeQuantize input = {};
};

/// Quantizers of other systems.
namespace presets {

/// rlx: ties away from zero, narrow codes, a running average of the scale, inside judged by
/// value.
QuantizerPreset rlx();
/// PyTorch's FakeQuantize module with the weights of its fbgemm and the activations of its
/// qnnpack configuration: x (1 / s), ties to even, symmetric s8 weights with max|x| / 127.5,
/// affine u8 activations, running averages of min and max, old + 0.01 (new - old), the smallest
/// scale 2^-23. Not get_default_qat_qconfig(), whose fused op gives activations 7 bits, weights
/// the scale max(|min| / 128, max / 127), computed in double.
QuantizerPreset torch();
/// oxicuda-quant: affine activations with codes 0 to 2^bits - 1, the zero point added before
/// rounding, ties away from zero, symmetric weights with all codes, ranges of at least 1e-8. So
/// the smallest scale depends on `bits`, 2..16, and does not follow `with`. There, ranges that
/// lie on one side of 0 are not widened to contain it.
QuantizerPreset oxicuda(int bits = 8);
/// baracuda: ties to even; x (1 / s) per tensor and x / s per channel, as its kernels have it;
/// scales and zero points are given.
QuantizerPreset baracuda();
/// horizon_plugin_pytorch: symmetric, all codes, max|x| / 127.5, ties up as the hardware
/// rounds, running averages of min and max, old + 0.01 (new - old).
QuantizerPreset horizon();
/// ONNX QuantizeLinear and DequantizeLinear: x / s, ties to even; scales and zero points are
/// given.
QuantizerPreset onnx();

/// The names of the presets above, in their order.
std::vector<std::string_view> names();
/// The preset called `name`, at its defaults. Throws ArgumentError, which lists the names.
QuantizerPreset at(std::string_view name);

}  // namespace presets
}  // namespace qtape
