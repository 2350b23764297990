// Quantizers of QuantizeLinear and DequantizeLinear.
#include "qtape/onnx/import/quantized.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "qtape/engine/quantizers.h"
#include "qtape/integer/rules/quantizer_of.h"
#include "qtape/integer/rules/rule_table.h"
#include "qtape/kernels/quantize/quantize.h"
#include "qtape/onnx/import/operators.h"

namespace qtape {
namespace {

struct CodeOperators : OnnxOperators {
  void quantize();
  void dequantize();

  OnnxCodes codes(int k, int32_t type, const Shape* shape);
  void read_zero_points(OnnxCodes& codes, int k, int32_t type, const OnnxConstant& scale);
  void place(OnnxCodes& codes, const Shape& scales, const Shape& shape);
  OnnxConstant values_of(const OnnxConstant& stored, const OnnxCodes& codes);
  void quantize_constant(OnnxConstant found, int32_t type);
  bool rounds_between(NodeId quantizer, NodeId id) const;
  void dequantize_constant(const OnnxConstant& stored);
  void dequantize_value();
  OnnxCodes codes_of(NodeId quantizer) const { return onnx_codes_of(to, quantizer); }
};

/// An element type of codes.
struct CodeType {
  int32_t type;
  int bits;
  bool is_signed;
};

constexpr CodeType code_types[] = {{onnx::TensorProto::INT8, 8, true},
                                   {onnx::TensorProto::UINT8, 8, false},
                                   {onnx::TensorProto::INT16, 16, true},
                                   {onnx::TensorProto::UINT16, 16, false},
                                   {onnx::TensorProto::INT32, 32, true},
                                   {onnx_int4, 4, true},
                                   {onnx_uint4, 4, false}};

int32_t type_of(int bits, bool is_signed) {
  const auto found = std::ranges::find_if(code_types, [&](const CodeType& each) {
    return each.bits == bits && each.is_signed == is_signed;
  });
  return found->type;
}

/// Returns the ONNX type of `codes`.
int32_t type_of(const OnnxCodes& codes) { return type_of(codes.bits, codes.is_signed); }

bool is_signed(const FakeQuantize& op) { return op.range != CodeRange::Unsigned; }

/// Returns int8, uint4 and the like, or the number of another type.
std::string type_text(int32_t type) {
  const auto found = std::ranges::find(code_types, type, &CodeType::type);
  if (found == std::end(code_types)) return fmt::format("type {}", type);
  return fmt::format("{}int{}", found->is_signed ? "" : "u", found->bits);
}

CodeRange range_of(const OnnxCodes& codes) {
  return codes.is_signed ? CodeRange::Full : CodeRange::Unsigned;
}

/// Index of the scale of each element of a constant.
class ScaleIndex {
 public:
  ScaleIndex(const OnnxCodes& codes, const Shape& shape)
      : single_(codes.scales.size() == 1), blocked_(codes.block > 0) {
    if (single_) return;
    for (int k = codes.axis + 1; k < shape.rank(); ++k) inner_ *= shape[k];
    extent_ = shape[codes.axis];
    block_ = std::max<int64_t>(codes.block, 1);
  }

  size_t of(int64_t element) const {
    if (single_) return 0;
    const int64_t along = element / inner_ % extent_ / block_;
    // Without blocks there is one scale for all elements at an index of the axis.
    if (!blocked_) return static_cast<size_t>(along);
    const int64_t before = element / (inner_ * extent_) * (extent_ / block_);
    return static_cast<size_t>((before + along) * inner_ + element % inner_);
  }

 private:
  bool single_, blocked_;
  int64_t inner_ = 1, extent_ = 1, block_ = 1;
};

/// Rounds the floats of a constant to codes.
void round(OnnxConstant& constant, const OnnxCodes& codes) {
  const Grid grid = grid_of(quantizer_for(codes, 0));
  const ScaleIndex scales(codes, constant.shape);
  for (size_t i = 0; i < constant.floats.size(); ++i) {
    const size_t scale = scales.of(static_cast<int64_t>(i));
    const QParams<float> q{codes.scales[scale], static_cast<float>(codes.zero_points[scale])};
    float& value = constant.floats[i];
    value = kernels::value_of(kernels::code_of(value, q, grid), q);
  }
}

std::string text_of(const OnnxCodes& codes) {
  const auto many = [](const auto& numbers) {
    return numbers.size() == 1 ? fmt::format("{}", numbers[0])
                               : fmt::format("one of {}", numbers.size());
  };
  return fmt::format("{} of scale {}, zero point {}", type_text(type_of(codes)),
                     many(codes.scales), many(codes.zero_points));
}

}  // namespace

bool onnx_moves_codes(std::string_view type) {
  constexpr std::string_view types[] = {
      "MaxPool", "Reshape", "Flatten", "Squeeze", "Unsqueeze",    "Identity",    "Transpose",
      "Slice",   "Gather",  "Split",   "Dropout", "DepthToSpace", "SpaceToDepth"};
  return std::ranges::find(types, type) != std::end(types);
}

OnnxCodes onnx_codes_of(const OnnxImporter& to, NodeId quantizer) {
  if (const OnnxCodes* stored = to.storage_of(quantizer)) return *stored;
  const Node& found = to.graph()[quantizer];
  const auto& op = std::get<FakeQuantize>(found.op);
  const auto numbers = [&](size_t k) {
    const Tensor& state = to.values().at(to.graph()[found.operands[k]].label);
    const auto values = state.values<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  OnnxCodes codes{.bits = op.bits, .is_signed = is_signed(op)};
  codes.scales = numbers(1);
  codes.zero_points.assign(codes.scales.size(), 0);
  if (op.scheme == Scheme::Affine) {
    const std::vector<float> zero_points = numbers(2);
    codes.zero_points.assign(zero_points.begin(), zero_points.end());
  }
  return codes;
}

int32_t onnx_code_type(const OnnxImporter& to, NodeId quantizer) {
  return type_of(onnx_codes_of(to, quantizer));
}

float onnx_value_of_code(const OnnxImporter& to, NodeId id, int64_t code) {
  const auto quantizer = preceding_quantizer(to.graph(), id);
  require<FormatError>(quantizer.has_value(), "input 0 has no codes of a QuantizeLinear");
  const OnnxCodes codes = onnx_codes_of(to, *quantizer);
  return static_cast<float>(code - codes.zero_points[0]) * codes.scales[0];
}

FakeQuantize quantizer_for(const OnnxCodes& codes, int axis) {
  std::vector<QParams<double>> qparams;
  for (size_t i = 0; i < codes.scales.size(); ++i) {
    qparams.push_back({double{codes.scales[i]}, static_cast<double>(codes.zero_points[i])});
  }
  FakeQuantize op = quantizer_for(codes.bits, range_of(codes), qparams, axis);
  if (codes.block > 0) op.axis = axis, op.group_size = codes.block;
  return op;
}

NodeId add_onnx_quantizer(OnnxImporter& to, const OnnxNode& node, NodeId x,
                          const OnnxCodes& codes, const FakeQuantize& op) {
  const std::string label = to.node_label(node, "quantized");
  std::vector<NodeId> operands = {x, to.add_state(label + ".scale", {1}, {codes.scales[0]})};
  if (op.scheme == Scheme::Affine) {
    operands.push_back(
        to.add_state(label + ".zero_point", {1}, {static_cast<float>(codes.zero_points[0])}));
  }
  return to.add(op, operands, label);
}

/// Reads scales and zero points, inputs `k` and `k` + 1, of codes of an ONNX type, 0 if the
/// zero points determine it. `shape` is that of the constant, null for values.
OnnxCodes CodeOperators::codes(int k, int32_t type, const Shape* shape) {
  OnnxCodes result;
  const OnnxConstant& scale = to.constant(node, k);
  result.block = node.integer("block_size", 0);
  (void)node.integer("axis", 1);
  expect(scale.is_float && (scale.shape.rank() <= 1 || result.block > 0),
         "input {} must be one scale or a list of scales, got {}", k,
         scale.is_float ? to_string(scale.shape) : "integers");
  expect(result.block >= 0, "block_size must be above 0, got {}", result.block);
  settle();
  result.scales = scale.floats;
  const auto wrong = std::ranges::find_if(
      result.scales, [](float each) { return !std::isfinite(each) || each <= 0; });
  if (wrong != result.scales.end()) {
    expect(false, "scales must be finite and above 0, got {}", *wrong);
  }
  settle();
  read_zero_points(result, k + 1, type, scale);
  if (shape == nullptr) {
    expect(result.scales.size() == 1 && result.block == 0,
           "expected one scale for values that are not constant, got {}", result.scales.size());
  } else {
    place(result, scale.shape, *shape);
  }
  settle();
  return result;
}

void CodeOperators::read_zero_points(OnnxCodes& codes, int k, int32_t type,
                                     const OnnxConstant& scale) {
  codes.zero_points.assign(codes.scales.size(), 0);
  if (to.has_input(node, k)) {
    const OnnxConstant& found = to.constant(node, k);
    const bool fits = !found.is_float && found.shape.elements() == scale.shape.elements();
    expect(fits, "input {} must be integers of the shape of the scales, {}, got {}{}", k,
           to_string(scale.shape), found.is_float ? "floats " : "", to_string(found.shape));
    if (type == 0) type = found.type;
    expect(found.type == type, "the zero point is of {}, expected {} as the codes",
           type_text(found.type), type_text(type));
    settle();
    codes.zero_points = found.integers;
  }
  expect(type != 0 || !to.has_input(node, k), "the type of the zero point is not known");
  settle();
  if (type == 0) type = onnx::TensorProto::UINT8;
  const auto row = std::ranges::find(code_types, type, &CodeType::type);
  expect(row != std::end(code_types), "codes of {} are not supported: use int8 or uint8",
         type_text(type));
  settle();
  codes.bits = row->bits;
  codes.is_signed = row->is_signed;
  if (!codes.of_sums()) return;
  const auto moved = std::ranges::find_if(codes.zero_points, [](int64_t z) { return z != 0; });
  if (moved != codes.zero_points.end()) {
    expect(false, "the zero point of int32 must be 0, got {}", *moved);
  }
}

/// Sets the axis of several scales of a constant of that shape.
void CodeOperators::place(OnnxCodes& codes, const Shape& scales, const Shape& shape) {
  if (codes.scales.size() == 1 && codes.block == 0) return;
  const int64_t given = node.integer("axis", 1);
  const int64_t axis = given < 0 ? given + shape.rank() : given;
  expect(axis >= 0 && axis < shape.rank(), "axis {} is out of range for {}", given,
         to_string(shape));
  settle();
  codes.axis = static_cast<int>(axis);
  const int64_t extent = shape[codes.axis];
  if (codes.block == 0) {
    return expect(extent == std::ssize(codes.scales),
                  "{} scales do not fit axis {} of {}: expected {}", codes.scales.size(), axis,
                  to_string(shape), extent);
  }
  expect(extent % codes.block == 0, "blocks of {} do not divide axis {} of {}", codes.block,
         axis, to_string(shape));
  settle();
  std::vector<int64_t> wanted(shape.extents().begin(), shape.extents().end());
  wanted[static_cast<size_t>(axis)] = extent / codes.block;
  expect(scales == Shape(wanted),
         "scales {} do not fit blocks of {} along axis {} of {}: expected {}",
         to_string(scales), codes.block, axis, to_string(shape), to_string(Shape(wanted)));
}

void CodeOperators::quantize() {
  const auto type = static_cast<int32_t>(node.integer("output_dtype", 0));
  if (constant_input()) return quantize_constant(to.constant(node, 0), type);
  const OnnxCodes own = codes(1, type, nullptr);
  expect(!own.of_sums(), "codes of int32 are not supported for values");
  OnnxValue a = x();
  const auto before = preceding_quantizer(to.graph(), a.id);
  const bool same = before && codes_of(*before) == own && !rounds_between(*before, a.id);
  if (!same) a.id = add_onnx_quantizer(to, node, a.id, own, quantizer_for(own, 0));
  give(std::move(a));
}

void CodeOperators::quantize_constant(OnnxConstant found, int32_t type) {
  expect(found.is_float, "input 0 must be floats");
  settle();
  OnnxCodes own = codes(1, type, &found.shape);
  // A number becomes an attribute, which no quantizer rounds.
  const bool attribute = found.shape.elements() == 1 && !own.of_sums();
  if (attribute || to.is_rounded(node.output(0))) {
    round(found, own);
  } else {
    found.unrounded = node.output(0);
  }
  const int64_t lowest = own.lowest(), half = int64_t{1} << (own.bits - 1);
  found.is_centered = std::ranges::all_of(own.zero_points,
                                          [&](int64_t zero) { return lowest - zero == -half; });
  found.codes = std::move(own);
  to.add_constant(node.output(0), std::move(found));
}

/// True if a node between the two changes codes, as Pad with a number does.
bool CodeOperators::rounds_between(NodeId quantizer, NodeId id) const {
  for (; id != quantizer; id = to.graph()[id].operands[0]) {
    if (rounds(to.graph()[id].op)) return true;
  }
  return false;
}

void CodeOperators::dequantize() {
  if (constant_input()) return dequantize_constant(to.constant(node, 0));
  dequantize_value();
}

void CodeOperators::dequantize_constant(const OnnxConstant& stored) {
  if (stored.codes) {
    const OnnxCodes own = codes(1, type_of(*stored.codes), &stored.shape);
    expect(own == *stored.codes, "it reads {} as {}", text_of(*stored.codes), text_of(own));
    settle();
    to.keep_codes(node.input(0));
    return to.add_constant(node.output(0), stored);
  }
  expect(!stored.is_float, "expected codes, got floats");
  expect(stored.type != 0 || to.has_input(node, 2),
         "the type of the codes is not known: add a zero point");
  settle();
  const OnnxCodes own = codes(1, stored.type, &stored.shape);
  const int64_t low = own.lowest(), high = own.highest();
  const auto outside = std::ranges::find_if(
      stored.integers, [&](int64_t code) { return code < low || code > high; });
  if (outside != stored.integers.end()) {
    expect(false, "codes of {} must be in {}..{}, got {}", type_text(type_of(own)), low, high,
           *outside);
  }
  settle();
  to.add_constant(node.output(0), values_of(stored, own));
}

OnnxConstant CodeOperators::values_of(const OnnxConstant& stored, const OnnxCodes& codes) {
  OnnxConstant values{.shape = stored.shape, .codes = codes, .is_centered = true};
  const ScaleIndex scales(codes, stored.shape);
  const int64_t half = int64_t{1} << (codes.bits - 1);
  for (int64_t i = 0; i < std::ssize(stored.integers); ++i) {
    const size_t scale = scales.of(i);
    const int64_t code = stored.integers[static_cast<size_t>(i)] - codes.zero_points[scale];
    values.is_centered = values.is_centered && code >= -half && code < half;
    values.floats.push_back(static_cast<float>(code) * codes.scales[scale]);
  }
  return values;
}

/// Passes on values that lie on a grid already.
void CodeOperators::dequantize_value() {
  OnnxValue a = moved_x();
  const auto quantizer = preceding_quantizer(to.graph(), a.id);
  expect(quantizer.has_value(), "input 0 has no codes of a QuantizeLinear");
  settle();
  const OnnxCodes written = codes_of(*quantizer);
  const OnnxCodes own = codes(1, type_of(written), nullptr);
  expect(own == written, "it reads {} as {}", text_of(written), text_of(own));
  settle();
  give(std::move(a));
}

namespace {

constexpr OnnxOperator code_rows[] = {
    {"QuantizeLinear", convert<&CodeOperators::quantize>, true},
    {"DequantizeLinear", convert<&CodeOperators::dequantize>, true}};

}  // namespace

std::span<const OnnxOperator> code_conversions() { return code_rows; }

}  // namespace qtape
