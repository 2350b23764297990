#include "qtape/model/presets.h"

#include <array>
#include <cmath>
#include <string>

#include "qtape/core/error.h"

namespace qtape::presets {
namespace {

/// Running averages of min and max as in PyTorch.
constexpr EMA torch_average{.decay = 0.99, .track = Track::Range, .weight = 0.01};

/// Returns quantizers of weights and inputs with shared settings.
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
                .scale_mode = torch_average});
}

QuantizerPreset oxicuda(int bits) {
  require<ArgumentError>(bits >= 2 && bits <= 16, "bits must be in 2..16, got {}", bits);
  // Divided in f32, as in oxicuda-quant: the larger of two quotients is the quotient of the
  // larger range.
  const auto floor_over = [](float steps) { return double{1e-8f / steps}; };
  const EMA average{.decay = 0.99, .track = Track::Range};
  return {.weight = {.bits = bits,
                     .axis = 0,
                     .range = CodeRange::Full,
                     .rounding = Rounding::HalfAway,
                     .floor = floor_over(std::ldexp(0.5f, bits) - 1),
                     .ste = Ste::ClippedIdentity,
                     .mask = MaskRule::Value,
                     .scale_mode = average},
          .input = {.bits = bits,
                    .range = CodeRange::Unsigned,
                    .scheme = Scheme::Affine,
                    .rounding = Rounding::HalfAway,
                    .zero_point = ZeroPoint::BeforeRounding,
                    .floor = floor_over(std::ldexp(1.0f, bits) - 1),
                    .ste = Ste::ClippedIdentity,
                    .mask = MaskRule::Value,
                    .scale_mode = average}};
}

QuantizerPreset baracuda() {
  const QuantizerPreset by_tensor = mixed({.range = CodeRange::Full,
                                           .division = Division::Reciprocal,
                                           .ste = Ste::ClippedIdentity,
                                           .scale_mode = Fixed{}});
  return {.weight = by_tensor.weight.with(&FakeQuantize::division, Division::Exact),
          .input = by_tensor.input};
}

QuantizerPreset horizon() {
  return symmetric({.range = CodeRange::Full,
                    .rounding = Rounding::HalfUp,
                    .denominator = Denominator::HalfSpan,
                    .floor = 0x1p-23,
                    .ste = Ste::ClippedIdentity,
                    .scale_mode = torch_average});
}

QuantizerPreset onnx() {
  return mixed({.range = CodeRange::Full, .ste = Ste::ClippedIdentity, .scale_mode = Fixed{}});
}

namespace {

struct Named {
  std::string_view name;
  QuantizerPreset (*make)();
};

constexpr std::array<Named, 6> all = {{{"rlx", rlx},
                                       {"torch", torch},
                                       {"oxicuda", [] { return oxicuda(); }},
                                       {"baracuda", baracuda},
                                       {"horizon", horizon},
                                       {"onnx", onnx}}};

}  // namespace

std::vector<std::string_view> names() {
  std::vector<std::string_view> result;
  for (const Named& each : all) result.push_back(each.name);
  return result;
}

QuantizerPreset at(std::string_view name) {
  std::string known;
  for (const Named& each : all) {
    if (each.name == name) return each.make();
    known += (known.empty() ? "" : ", ") + std::string(each.name);
  }
  fail<ArgumentError>("unknown preset \"{}\"; expected one of {}", name, known);
}

}  // namespace qtape::presets
