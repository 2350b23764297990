// Declarations of quantizer ops for tools, in addition to the contract of op.h and the
// attributes of the grid: the operands after x and the way they hold scales.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "qtape/ops/core/grid_attributes.h"
#include "qtape/ops/core/op.h"

namespace qtape {

/// Element type of the scales and zero points for an operand x of type `x`.
constexpr DType scale_dtype(DType x) { return x == DType::F64 ? DType::F64 : DType::F32; }

/// An operand after the first that holds scales, zero points or values from which they are
/// computed. Slots, types and the leaves added by tools follow from it.
struct QuantizerOperand {
  std::string_view name = {};  ///< name of its slot
  bool trained = false;        ///< a Parameter, with a gradient; otherwise a State
  bool written = false;        ///< written by forward while observing
  bool range = false;  ///< holds all minima and then all maxima instead of one number per scale
};

/// Operands scale and, if affine, zero_point; their other members are those of `each`.
inline std::vector<QuantizerOperand> scale_operands(Scheme scheme, QuantizerOperand each = {}) {
  each.name = "scale";
  std::vector<QuantizerOperand> operands = {each};
  each.name = "zero_point";
  if (scheme == Scheme::Affine) operands.push_back(each);
  return operands;
}

/// Slots of an op with operand 0 described by `first`, followed by `operands`.
inline std::vector<Slot> quantizer_slots(const Slot& first,
                                         std::span<const QuantizerOperand> operands) {
  std::vector<Slot> slots = {first};
  for (const QuantizerOperand& operand : operands) {
    slots.push_back({.name = operand.name,
                     .differentiable = operand.trained,
                     .access = operand.written ? Access::ReadWrite : Access::Read});
  }
  return slots;
}

/// Type of `operand` for values of type `values`. Throws GraphError if the granularity does not
/// fit them.
inline TensorType operand_type(const QuantizerOperand& operand, const Granularity& granularity,
                               const TensorType& values) {
  const DType dtype = scale_dtype(values.dtype);
  const Shape scales = granularity.scales_shape(values.shape);
  if (!operand.range) return {dtype, scales};
  std::vector<int64_t> extents = {2};
  extents.insert(extents.end(), scales.extents().begin(), scales.extents().end());
  return {dtype, Shape(extents)};
}

/// Throws GraphError unless the operands after the first have the types given by
/// `op.operands()` for values of type `values`, and the granularity of `op` fits them.
template <class X>
void check_quantizer_operands(const X& op, const TensorType& values, Inputs inputs) {
  const Granularity granularity = granularity_of(op);
  (void)granularity.scales_shape(values.shape);
  size_t i = 1;
  for (const QuantizerOperand& operand : op.operands()) {
    const TensorType type = operand_type(operand, granularity, values);
    check(inputs[i] == type, "{} must be {}, got {}", operand.name, to_string(type),
          to_string(inputs[i]));
    ++i;
  }
}

/// Fault if the zero point of a channel is not one of the codes. Shared by tapes, conversion
/// and lint.
template <class T>
Fault zero_point_fault(T zero_point, CodeLimits limits, int64_t channel) {
  if (is_code(zero_point, limits)) return {};
  return {"zero point of channel {index} is {value}; it must be one of the codes", channel,
          static_cast<double>(zero_point)};
}

/// Values of a quantizer's operands after x, in slot order.
using QuantizerValues = std::span<std::byte* const>;

/// An op that quantizes operand 0 and has `operands` after it; its slots are the
/// quantizer_slots of these. Its Binding::record starts with the scales, then the zero points
/// of the last forward, [channels] each, of type scale_dtype.
///
/// `store` writes the operands for data in `ranges` or for given scales and zero points, one
/// per channel. The caller must reject empty ranges and zero points outside the codes. `load`
/// returns the scales and zero points that the operands represent; a channel that was never
/// observed has scale 0. `reads_data` is true if a forward needs x to compute its scales; its
/// last argument states if observers are on.
template <class X>
concept Quantizer = HasGrid<X> && Compute<X> &&
    requires(const X& op, const TensorType& x, std::span<const ValueRange<double>> ranges,
             std::span<const QParams<double>> qparams, QuantizerValues values) {
  { op.operands() } -> std::same_as<std::vector<QuantizerOperand>>;
  { op.store(x, ranges, values) } -> std::same_as<void>;
  { op.store(x, qparams, values) } -> std::same_as<void>;
  { op.load(x, values) } -> std::same_as<std::vector<QParams<double>>>;
  { op.reads_data(x, values, true) } -> std::same_as<bool>;
};

/// Type of y. Throws GraphError for an invalid grid, for an x that is not of a float dtype or
/// does not fit the granularity, and for operands of the wrong type.
template <class X>
TensorType infer_quantizer(const X& op, Inputs inputs) {
  check_grid(op);
  const TensorType& x = inputs[0];
  check(is_float(x.dtype), "expected f32, f64, f16 or bf16, got {}", to_string_view(x.dtype));
  check_quantizer_operands(op, x, inputs);
  return x;
}

}  // namespace qtape
