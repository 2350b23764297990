// FakeQuantize: rounds values to a grid of integer codes and back, with a trainable gradient.
#pragma once

#include <optional>

#include "qtape/ops/core/quantizer_op.h"

namespace qtape {

/// Straight-through estimators: the surrogate for the derivative of rounding.
enum class Ste : uint8_t { Identity, ClippedIdentity, Tanh, HardTanh, TanhRange };
template <>
inline constexpr auto enum_names<Ste> = std::array<std::string_view, 5>{
    "Identity", "ClippedIdentity", "Tanh", "HardTanh", "TanhRange"};

/// The scale is computed from the data of each call.
struct PerBatch {
  static constexpr std::string_view name = "PerBatch";
  static constexpr auto fields() { return std::tuple<>{}; }
  bool operator==(const PerBatch&) const = default;
};

/// Quantity of a running average.
enum class Track : uint8_t {
  Scale,  ///< the scale
  Range   ///< smallest and largest value: always for affine grids; for symmetric ones as in
          ///< PyTorch
};
template <>
inline constexpr auto enum_names<Track> = std::array<std::string_view, 2>{"Scale", "Range"};

/// The scale is a running average stored in a state: s = decay s + (1 - decay) current or, with
/// a `weight`, s = s + weight (current - s), as in PyTorch's moving averages. The first
/// observation replaces a state of 0. The two formulas differ in bits, and 1 - 0.99 is not
/// 0.01, so both numbers are given: EMA{.decay = 0.99, .weight = 0.01}. The same call uses the
/// new scale, or the floor if that is larger. With Track::Range, min and max are averaged, and
/// scale and zero point are computed from them.
///
/// Delayed: a call uses the state before its own observation, which takes effect in the next
/// call. A channel that was never observed uses its own observation. Data are thus quantized
/// and observed in one pass, as in the training of FP8 networks (Micikevicius et al., arXiv
/// 2209.05433).
struct EMA {
  static constexpr std::string_view name = "EMA";
  double decay = 0.99;
  Track track = Track::Scale;
  std::optional<double> weight = std::nullopt;
  bool delayed = false;
  static constexpr auto fields() {
    return std::tuple{
        field("decay", &EMA::decay, "weight of the old state, in [0, 1)"),
        field("track", &EMA::track, "Scale, or Range: min and max"),
        field("weight", &EMA::weight,
              "weight of the current value in old + weight (current - old), 1 - "
              "decay; null: decay old + (1 - decay) current"),
        field("delayed", &EMA::delayed, "use the average of the preceding calls")};
  }
  bool operator==(const EMA&) const = default;
};

/// Scale and zero point are states that the op never writes; set_qparams or calibration sets
/// them. The scale in use is at least the floor.
struct Fixed {
  static constexpr std::string_view name = "Fixed";
  static constexpr auto fields() { return std::tuple<>{}; }
  bool operator==(const Fixed&) const = default;
};

/// Source of the scale.
using ScaleMode = std::variant<PerBatch, EMA, Fixed>;

struct FakeQuantize {
  static constexpr std::string_view name = "FakeQuantize";
  static constexpr WholeBatch whole_batch = WholeBatch::Forward;
  static constexpr OpDocs docs{
      .summary =
          "Rounds values to a grid of integer codes and back, with a trainable gradient.",
      .formula = {"y = s (clamp(round(x / s) + zp, q_min, q_max) - zp), with a scale s and a "
                  "zero point zp per tensor, per index of axis (channel, token) or per group "
                  "of group_size along it.",
                  "Symmetric: zp = 0, s = max(max|x| / denominator, floor).",
                  "Affine: s = max((max - min) / (q_max - q_min), floor) over a range that "
                  "contains 0, zp = q_min - round(min / s).",
                  "PerBatch: max and min of the finite x of this call.",
                  "EMA: running averages over finite x, in a State scale or, with track Range, "
                  "in a State range.",
                  "Fixed: a State scale and, when affine, a State zero_point, which the op "
                  "never writes.",
                  "With a State scale, s = max(scale, floor).",
                  "With power_of_two, s is rounded up to a power of two; zp is computed from "
                  "it unless Fixed."},
      .operands = {"x is f32, f64, f16 or bf16; y has its type.",
                   "States have the shape of the granularity: [1], [channels] or x's with the "
                   "axis divided; range is [2, ...] of it.",
                   "States are f64 for f64 x, else f32."},
      .gradient = {"Selected by ste; s is the scale used in forward.", "Identity: dx = dy.",
                   "ClippedIdentity: dx = dy inside the range, else 0; PerBatch never clips a "
                   "side that set the scale.",
                   "Tanh: dx = dy (1 - tanh^2(x / s)).", "HardTanh: dx = dy max(0, 1 - |u|).",
                   "TanhRange: dx = dy (1 - tanh^2(u)).",
                   "u = x / (q_max s); when affine, x divided by the end of the range on its "
                   "side of 0."},
      .saves = {"The scales.", "One bit per element for ClippedIdentity.",
                "x for Tanh, HardTanh and TanhRange."},
      .edge_cases =
          {"NaN stays NaN, infinities go to the end on their side, -0 becomes +0.",
           "The end of the grid may exceed the data by half a step, and so be an "
           "infinity for x near the largest number of the dtype, in f16 above 65,000.",
           "Under Tanh, HardTanh and TanhRange dx = 0 where x is NaN.",
           "Disabled, or in a mode that does not quantize: y = x, dx = dy."},
      .source = {"Jacob et al., arXiv 1712.05877: affine codes and running ranges.",
                 "Bengio et al., arXiv 1308.3432: the straight-through estimator.",
                 "PyTorch: EMA with a weight, symmetric with track Range.",
                 "ONNX's blocked quantization: groups.",
                 "Jain et al., arXiv 1903.08066: scales that are powers of two."}};

  int bits = default_bits;
  std::optional<int> axis = std::nullopt;
  std::optional<int64_t> group_size = std::nullopt;
  CodeRange range = default_range;
  Scheme scheme = Grid{}.scheme;
  Rounding rounding = Grid{}.rounding;
  Division division = Grid{}.division;
  Denominator denominator = Grid{}.denominator;
  ZeroPoint zero_point = Grid{}.zero_point;
  double floor = Grid{}.floor;
  bool power_of_two = Grid{}.power_of_two;
  Ste ste = Ste::Identity;
  MaskRule mask = default_mask;
  ScaleMode scale_mode = PerBatch{};

  static constexpr auto fields() {
    using F = FakeQuantize;
    return std::tuple_cat(
        grid_fields<F>(),
        std::tuple{
            field("ste", &F::ste, "Identity, ClippedIdentity, Tanh, HardTanh or TanhRange"),
            mask_field<F>(),
            field("scale_mode", &F::scale_mode,
                  "PerBatch, EMA {decay, track, weight, delayed} or Fixed")});
  }
  std::vector<Slot> slots() const { return quantizer_slots({.name = "x"}, operands()); }
  TensorType infer(Inputs inputs) const;
  Keep keep() const;
  Footprint footprint(Inputs inputs) const;
  int64_t shards_scratch(Inputs inputs, const Shards& shards) const;
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const FakeQuantize&) const = default;

  /// Returns a copy with one attribute changed: `q.with(&FakeQuantize::bits, 4)`.
  template <class V>
  FakeQuantize with(V FakeQuantize::*attribute, std::type_identity_t<V> value) const {
    FakeQuantize copy = *this;
    copy.*attribute = std::move(value);
    return copy;
  }

  std::vector<QuantizerOperand> operands() const;
  void store(const TensorType& x, std::span<const ValueRange<double>> ranges,
             QuantizerValues values) const;
  void store(const TensorType& x, std::span<const QParams<double>> qparams,
             QuantizerValues values) const;
  std::vector<QParams<double>> load(const TensorType& x, QuantizerValues values) const;
  bool reads_data(const TensorType& x, QuantizerValues values, bool observing) const;
  /// True if backward needs a mask of the elements inside the range.
  bool masked() const;
  /// True if backward reads x.
  bool keeps_operand() const;
  /// True if the mask can include that of a preceding Relu.
  bool takes_gate() const { return masked(); }
  /// True if the state holds ranges instead of scales.
  bool tracks_range() const;
};

}  // namespace qtape
