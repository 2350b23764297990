#include "qtape/engine/presets.h"

namespace qtape::presets {
namespace {

/// Weight and input from what they share.
QuantizerPreset symmetric(const FakeQuantize& shared) {
  return {.weight = shared.with(&FakeQuantize::axis, 0), .input = shared};
}

/// Symmetric s8 weights, affine u8 activations.
QuantizerPreset mixed(const FakeQuantize& shared) {
  return {.weight = shared.with(&FakeQuantize::axis, 0),
          .input = shared.with(&FakeQuantize::range, CodeRange::Unsigned)
                       .with(&FakeQuantize::scheme, Scheme::Affine)};
}

}  // namespace

QuantizerPreset rlx() {
  return symmetric({.range = CodeRange::Narrow,
                    .rounding = Rounding::HalfAway,
                    .floor = 1e-12,
                    .ste = Ste::ClippedIdentity,
                    .mask = MaskRule::Value,
                    .scale_mode = EMA{.decay = 0.99}});
}

QuantizerPreset torch() {
  return mixed({.range = CodeRange::Full,
                .division = Division::Reciprocal,
                .denominator = Denominator::HalfSpan,
                .floor = 0x1p-23,
                .ste = Ste::ClippedIdentity,
                .scale_mode = EMA{.decay = 0.99, .track = Track::Range}});
}

QuantizerPreset oxicuda() {
  return {.weight = {.axis = 0,
                     .range = CodeRange::Full,
                     .rounding = Rounding::HalfAway,
                     .ste = Ste::ClippedIdentity,
                     .mask = MaskRule::Value,
                     .scale_mode = EMA{.decay = 0.99, .track = Track::Range}},
          .input = {.range = CodeRange::Full,
                    .scheme = Scheme::Affine,
                    .rounding = Rounding::HalfAway,
                    .zero_point = ZeroPoint::BeforeRounding,
                    .ste = Ste::ClippedIdentity,
                    .mask = MaskRule::Value,
                    .scale_mode = EMA{.decay = 0.99, .track = Track::Range}}};
}

QuantizerPreset baracuda() {
  return mixed({.range = CodeRange::Full,
                .division = Division::Reciprocal,
                .ste = Ste::ClippedIdentity,
                .scale_mode = Fixed{}});
}

QuantizerPreset horizon() {
  return symmetric({.range = CodeRange::Full,
                    .rounding = Rounding::HalfUp,
                    .denominator = Denominator::HalfSpan,
                    .floor = 0x1p-23,
                    .ste = Ste::ClippedIdentity,
                    .scale_mode = EMA{.decay = 0.99, .track = Track::Range}});
}

QuantizerPreset onnx() {
  return mixed({.range = CodeRange::Full, .ste = Ste::ClippedIdentity, .scale_mode = Fixed{}});
}

}  // namespace qtape::presets
