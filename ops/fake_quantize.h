// FakeQuantize: rounds values to a grid of integer codes and back, with a trainable gradient.
#pragma once

#include <optional>

#include "qtape/ops/core/op.h"
#include "qtape/ops/core/quantize.h"

namespace qtape {

/// Straight-through estimators: what stands in for the derivative of rounding.
enum class Ste : uint8_t { Identity, ClippedIdentity, Tanh, HardTanh, TanhRange };
template <>
inline constexpr auto enum_names<Ste> = std::array<std::string_view, 5>{
    "Identity", "ClippedIdentity", "Tanh", "HardTanh", "TanhRange"};

/// The scale comes from each call's own data.
struct PerBatch {
  static constexpr std::string_view name = "PerBatch";
  static constexpr auto fields() { return std::tuple<>{}; }
  bool operator==(const PerBatch&) const = default;
};

/// The scale is a running average in a state: s = decay s + (1 - decay) current, and the first
/// observation itself while the state is 0. The same call uses the new scale.
struct EMA {
  static constexpr std::string_view name = "EMA";
  double decay = 0.99;
  static constexpr auto fields() {
    return std::tuple{field("decay", &EMA::decay, "weight of the old scale, in [0, 1)")};
  }
  bool operator==(const EMA&) const = default;
};

/// The scale is a state that the op never writes: set by set_qparams or by calibration.
struct Fixed {
  static constexpr std::string_view name = "Fixed";
  static constexpr auto fields() { return std::tuple<>{}; }
  bool operator==(const Fixed&) const = default;
};

using ScaleMode = std::variant<PerBatch, EMA, Fixed>;

struct FakeQuantize {
  static constexpr std::string_view name = "FakeQuantize";
  static constexpr std::string_view doc =
      "y = s clamp(round(x / s), q_min, q_max), symmetric. x f32, f64, f16 or bf16 of any "
      "shape; "
      "EMA and Fixed take a State scale [channels] (f64 for f64 x, else f32; [1] per tensor). "
      "PerBatch: s = max(max|x| / q_max, floor) over finite x. Gradient by ste, s being the "
      "scale "
      "that forward used: Identity dy; ClippedIdentity dy inside the range, else 0 (PerBatch "
      "never clips the side that set the scale); Tanh dy (1 - tanh^2(x / s)); HardTanh "
      "dy max(0, 1 - |x / (q_max s)|); TanhRange dy (1 - tanh^2(x / (q_max s))). NaN stays "
      "NaN, "
      "infinities go to their end, -0 becomes +0. Saves one bit per element for "
      "ClippedIdentity, "
      "x for the last three, and the scales. Disabled or in a mode that does not quantize: y = "
      "x, "
      "dx = dy.";

  int bits = 8;
  std::optional<int> axis = std::nullopt;
  CodeRange range = CodeRange::Narrow;
  Rounding rounding = Rounding::HalfEven;
  Division division = Division::Exact;
  Denominator denominator = Denominator::QMax;
  double floor = 1e-12;
  Ste ste = Ste::Identity;
  MaskRule mask = MaskRule::Code;
  ScaleMode scale_mode = PerBatch{};

  static constexpr auto fields() {
    using F = FakeQuantize;
    return std::tuple{
        field("bits", &F::bits, "2..16; 1 only with range Unsigned"),
        field("axis", &F::axis, "channel axis with a scale each; null: one scale per tensor"),
        field("range", &F::range, "Narrow [-q, q], Full [-q-1, q], Unsigned [0, 2^bits - 1]"),
        field("rounding", &F::rounding, "HalfEven, HalfAway or HalfUp"),
        field("division", &F::division, "Exact x / s or Reciprocal x (1 / s)"),
        field("denominator", &F::denominator, "QMax or HalfSpan (q_max - q_min) / 2"),
        field("floor", &F::floor, "smallest scale, a normal f32 above 0"),
        field("ste", &F::ste, "Identity, ClippedIdentity, Tanh, HardTanh or TanhRange"),
        field("mask", &F::mask, "inside judged by Code or by Value"),
        field("scale_mode", &F::scale_mode, "PerBatch, EMA {decay} or Fixed")};
  }
  std::vector<Slot> slots() const;
  TensorType infer(Inputs inputs) const;
  Keep keep() const;
  Footprint footprint(Inputs inputs) const;
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const FakeQuantize&) const = default;

  CodeLimits limits() const { return code_limits(bits, range); }
  /// Scales that x of `shape` has: the extent of `axis`, or 1.
  int64_t channels(const Shape& shape) const { return axis ? shape[*axis] : 1; }
  /// Whether backward needs to know which elements lay outside the range.
  bool masked() const;
};

/// The element type of the scales that go with x of type `x`.
constexpr DType scale_dtype(DType x) { return x == DType::F64 ? DType::F64 : DType::F32; }

}  // namespace qtape
