// FakeQuantizeLSQ: fake quantization with a learned scale and, when affine, a learned zero
// point.
#pragma once

#include <optional>

#include "qtape/ops/core/quantizer_op.h"

namespace qtape {

struct FakeQuantizeLSQ {
  static constexpr std::string_view name = "FakeQuantizeLSQ";
  static constexpr WholeBatch whole_batch = WholeBatch::Forward;
  static constexpr OpDocs docs{
      .summary =
          "Fake quantization with a learned scale and, when affine, a learned zero point.",
      .formula =
          {"y = s (clamp(round(x / s) + zp, q_min, q_max) - zp) with s = max(|scale|, floor), "
           "which no update can make 0.",
           "Affine: zp = round(zero_point), clamped to the codes (LSQ+).",
           "A scale of 0 is not initialised: the first observed batch with a finite "
           "nonzero element sets it.",
           "The initial scale is 2 mean|x| / sqrt(q_max) for up to 4 bits, and that of the "
           "range [min, max] for more.",
           "Affine, up to 4 bits: 2 mean|x| / sqrt(n p), n = q_max - q_min, p the larger "
           "sign's share of mean|x|; zp divides the codes between the signs in proportion.",
           "The range [min, max] is used instead if its scale is smaller."},
      .operands = {"x is f32, f64, f16 or bf16; y has its type.",
                   "scale and, when affine, zero_point are Parameters or States with the "
                   "shape and dtype of FakeQuantize's."},
      .gradient = {"g = 1 / sqrt(N q_max) for N elements per scale, z = x / s.",
                   "dx = dy inside the range, else 0.",
                   "dscale = g sign(scale) sum dy t, t = round(z) - z inside, q_min - zp "
                   "below, q_max - zp above.",
                   "dzero_point = -g s sum dy over elements outside.",
                   "During warm-up, scales follow the data and get no gradient."},
      .saves = "x and the scales.",
      .edge_cases = {"NaN stays NaN and contributes nothing to other gradients.",
                     "Disabled, or in a mode that does not quantize: y = x, dx = dy."},
      .source = {"Esser et al., arXiv 1902.08153.", "Bhalgat et al., arXiv 2004.09576."}};

  int bits = default_bits;
  std::optional<int> axis = std::nullopt;
  std::optional<int64_t> group_size = std::nullopt;
  CodeRange range = default_range;
  Scheme scheme = Grid{}.scheme;
  Rounding rounding = Grid{}.rounding;
  Division division = Grid{}.division;
  double floor = Grid{}.floor;
  MaskRule mask = default_mask;

  static constexpr auto fields() {
    using F = FakeQuantizeLSQ;
    return std::tuple_cat(grid_fields<F>(), std::tuple{mask_field<F>()});
  }
  std::vector<Slot> slots() const { return quantizer_slots({.name = "x"}, operands()); }
  TensorType infer(Inputs inputs) const;
  Keep keep() const { return {.operands = 1u, .backward_in_place = true}; }
  Footprint footprint(Inputs inputs) const;
  int64_t shards_scratch(Inputs inputs, const Shards& shards) const;
  Kernel forward(const Binding& binding) const;
  Kernel backward(const Binding& binding) const;
  bool operator==(const FakeQuantizeLSQ&) const = default;

  std::vector<QuantizerOperand> operands() const {
    return scale_operands(scheme, {.trained = true, .written = true});
  }
  void store(const TensorType& x, std::span<const ValueRange<double>> ranges,
             QuantizerValues values) const;
  void store(const TensorType& x, std::span<const QParams<double>> qparams,
             QuantizerValues values) const;
  std::vector<QParams<double>> load(const TensorType& x, QuantizerValues values) const;
  bool reads_data(const TensorType& x, QuantizerValues values, bool observing) const;
};

}  // namespace qtape
