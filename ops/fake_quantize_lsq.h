// FakeQuantizeLSQ: fake quantization with a learned scale, and a learned zero point when
// affine.
#pragma once

#include <optional>

#include "qtape/ops/core/op.h"
#include "qtape/ops/core/quantizer_op.h"

namespace qtape {

struct FakeQuantizeLSQ {
  static constexpr std::string_view name = "FakeQuantizeLSQ";
  static constexpr OpDocs docs{
      .summary =
          "Fake quantization with a learned scale, and a learned zero point when affine.",
      .formula = {"y = s (clamp(round(x / s) + zp, q_min, q_max) - zp) with s = max(|scale|, "
                  "floor), so that no update can kill it.",
                  "Affine: zp = round(zero_point), within the codes (LSQ+).",
                  "A scale of 0 is not initialised: the first observed batch with a finite "
                  "nonzero element sets it to 2 mean|x| / sqrt(q_max), or affine to what "
                  "[min, max] gives."},
      .operands = {"x is f32, f64, f16 or bf16; y has its type.",
                   "scale and, when affine, zero_point are Parameters or States with the "
                   "shape and dtype of FakeQuantize's."},
      .gradient = {"g = 1 / sqrt(N q_max) for N elements per scale, z = x / s.",
                   "dx = dy inside the range, else 0.",
                   "dscale = g sign(scale) sum dy t, t = round(z) - z inside, q_min - zp "
                   "below, q_max - zp above.",
                   "dzero_point = -g s sum dy over elements outside.",
                   "While scales warm up they follow the data and get no gradient."},
      .saves = "x and the scales.",
      .edge_cases = {"NaN stays NaN and counts nowhere.",
                     "Disabled, or in a mode that does not quantize: y = x, dx = dy."},
      .source = {"Esser et al., arXiv 1902.08153.", "Bhalgat et al., arXiv 2004.09576."}};

  int bits = 8;
  std::optional<int> axis = std::nullopt;
  std::optional<int64_t> group_size = std::nullopt;
  CodeRange range = CodeRange::Narrow;
  Scheme scheme = Scheme::Symmetric;
  Rounding rounding = Rounding::HalfEven;
  Division division = Division::Exact;
  double floor = 1e-12;
  MaskRule mask = MaskRule::Code;

  static constexpr auto fields() {
    using F = FakeQuantizeLSQ;
    return std::tuple{
        field("bits", &F::bits, "2..16; 1 only with range Unsigned"),
        field("axis", &F::axis, "axis with a scale per index; null: one scale per tensor"),
        field("group_size", &F::group_size,
              "indices of the axis that share a scale, all other places having their own; "
              "divides the axis; null: a scale per index"),
        field("range", &F::range, "Narrow [-q, q], Full [-q-1, q], Unsigned [0, 2^bits - 1]"),
        field("scheme", &F::scheme, "Symmetric, or Affine: a zero point is learned as well"),
        field("rounding", &F::rounding, "HalfEven, HalfAway or HalfUp"),
        field("division", &F::division, "Exact x / s or Reciprocal x (1 / s)"),
        field("floor", &F::floor, "smallest scale, a normal f32 above 0"),
        field("mask", &F::mask, "inside judged by Code or by Value")};
  }
  std::vector<Slot> slots() const;
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return {.operands = 1u, .backward_in_place = true}; }
  Footprint footprint(Inputs inputs) const;
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const FakeQuantizeLSQ&) const = default;

  Grid grid() const {
    return {.limits = code_limits(bits, range),
            .scheme = scheme,
            .rounding = rounding,
            .division = division,
            .floor = floor};
  }
  Granularity granularity() const { return {axis, group_size}; }
  std::vector<QuantizerOperand> operands(const TensorType& x) const;
  void store(const TensorType& x, std::span<const ValueRange<double>> ranges,
             QuantizerValues values) const;
  void store(const TensorType& x, std::span<const QParams<double>> qparams,
             QuantizerValues values) const;
  std::vector<QParams<double>> load(const TensorType& x, QuantizerValues values) const;
};

}  // namespace qtape
