// What every quantizer op tells tools beside the contract of op.h and the attributes of its
// grid: how its states hold scales.
#pragma once

#include <span>
#include <vector>

#include "qtape/ops/core/grid_attributes.h"
#include "qtape/ops/core/op.h"

namespace qtape {

/// The element type of the scales and zero points that go with x of type `x`.
constexpr DType scale_dtype(DType x) { return x == DType::F64 ? DType::F64 : DType::F32; }

/// An operand that a quantizer needs after x: a Parameter when `trained`, else a State.
struct QuantizerOperand {
  std::string_view name;  ///< its slot's
  TensorType type;
  bool trained = false;
};

/// What is wrong with the zero point of a channel: it must be one of the codes. Tapes,
/// conversion and lint all ask here.
template <class T>
Fault zero_point_fault(T zero_point, CodeLimits limits, int64_t channel) {
  if (is_code(zero_point, limits)) return {};
  return {"zero point of channel {index} is {value}; it must be one of the codes", channel,
          static_cast<double>(zero_point)};
}

/// Values of a quantizer's operands after x, in slot order.
using QuantizerValues = std::span<std::byte* const>;

/// An op that quantizes operand 0. Its Binding::record begins with the scales and then the zero
/// points that the last forward used, [channels] each, of type scale_dtype.
///
/// `store` writes what the operands must hold for data in `ranges` or for given scales and zero
/// points, one per channel; ranges that are empty and zero points outside the codes are the
/// caller's to refuse. `load` gives the scales and zero points that the operands stand for;
/// those of a channel that was never observed have scale 0.
template <class X>
concept Quantizer = Compute<X> && HasGrid<X> &&
    requires(const X& op, const TensorType& x, std::span<const ValueRange<double>> ranges,
             std::span<const QParams<double>> qparams, QuantizerValues values) {
  { op.operands(x) } -> std::same_as<std::vector<QuantizerOperand>>;
  { op.store(x, ranges, values) } -> std::same_as<void>;
  { op.store(x, qparams, values) } -> std::same_as<void>;
  { op.load(x, values) } -> std::same_as<std::vector<QParams<double>>>;
};

/// The type of y; throws GraphError for a grid that does not exist, for an x that is not of a
/// float dtype or does not fit the granularity, and for operands of another type than
/// `op.operands` gives.
template <class X>
TensorType infer_quantizer(const X& op, Inputs inputs) {
  check_grid(op);
  const TensorType& x = inputs[0];
  check(is_float(x.dtype), "expected f32, f64, f16 or bf16, got {}", to_string_view(x.dtype));
  size_t i = 1;
  (void)granularity_of(op).scales_shape(x.shape);
  for (const QuantizerOperand& operand : op.operands(x)) {
    check(inputs[i] == operand.type, "{} must be {}, got {}", operand.name,
          to_string(operand.type), to_string(inputs[i]));
    ++i;
  }
  return x;
}

}  // namespace qtape
