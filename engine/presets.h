// Quantizers that compute what other systems compute: for moving models, and for comparing.
#pragma once

#include "qtape/ops/fake_quantize.h"

namespace qtape {

/// Quantizers of weights [out, in], by output channel, and of activations, by tensor. Each is a
/// value to be copied with changes, `presets::torch().weight.with(&FakeQuantize::bits, 4)`, and
/// given to any number of layers.
struct QuantizerPreset {
  FakeQuantize weight = {};
  FakeQuantize input = {};
};

namespace presets {

/// rlx: ties away from zero, narrow codes, a running average of the scale, inside judged by
/// value.
QuantizerPreset rlx();
/// PyTorch's default QAT configuration: x (1 / s), ties to even, symmetric s8 weights with
/// max|x| / 127.5, affine u8 activations, running averages of min and max with weight 0.01, the
/// smallest scale 2^-23.
QuantizerPreset torch();
/// oxicuda-quant: the zero point is added before rounding, ties away from zero, all codes.
QuantizerPreset oxicuda();
/// baracuda: x (1 / s), ties to even; scales and zero points are given.
QuantizerPreset baracuda();
/// horizon_plugin_pytorch: symmetric, all codes, max|x| / 127.5, ties up as the hardware
/// rounds, running averages of min and max with weight 0.01.
QuantizerPreset horizon();
/// ONNX QuantizeLinear and DequantizeLinear: x / s, ties to even; scales and zero points are
/// given.
QuantizerPreset onnx();

}  // namespace presets
}  // namespace qtape
