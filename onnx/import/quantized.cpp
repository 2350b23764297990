// Quantizers of QuantizeLinear and DequantizeLinear.
#include "qtape/onnx/import/quantized.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "qtape/engine/quantizers.h"
#include "qtape/engine/rewrite.h"
#include "qtape/integer/rules/quantizer_of.h"
#include "qtape/integer/rules/rule_table.h"
#include "qtape/onnx/import/operators.h"

namespace qtape {
namespace {

struct CodeOperators : OnnxOperators {
  void quantize();
  void dequantize();
  void conv();
  void matmul();

  OnnxCodes codes(int k, int32_t type, const Shape* shape);
  OnnxConstant values_of(const OnnxConstant& stored, const OnnxCodes& codes);
  std::string add_values(int k, OnnxConstant values);
  void product(const char* type);
  NodeId quantized(const OnnxValue& a, const OnnxCodes& codes);
  void dequantize_constant(const OnnxConstant& stored);
  void dequantize_value();
  OnnxCodes codes_of(NodeId quantizer) const;
};

/// Sets bits and sign of integers of an ONNX type. Returns false for other types.
bool set_type(OnnxCodes& codes, int32_t type) {
  switch (type) {
    case onnx::TensorProto::INT8:
    case onnx::TensorProto::UINT8:
      codes.bits = 8;
      break;
    case onnx::TensorProto::INT16:
    case onnx::TensorProto::UINT16:
      codes.bits = 16;
      break;
    case onnx::TensorProto::INT32:
      codes.bits = 32;
      break;
    case onnx_uint4:
    case onnx_int4:
      codes.bits = 4;
      break;
    default:
      return false;
  }
  codes.is_signed = type == onnx::TensorProto::INT8 || type == onnx::TensorProto::INT16 ||
                    type == onnx::TensorProto::INT32 || type == onnx_int4;
  return true;
}

CodeRange range_of(const OnnxCodes& codes) {
  return codes.is_signed ? CodeRange::Full : CodeRange::Unsigned;
}

std::string text_of(const OnnxCodes& codes) {
  return fmt::format("{}{} of scale {}, zero point {}", codes.is_signed ? "int" : "uint",
                     codes.bits, fmt::join(codes.scales, ", "),
                     fmt::join(codes.zero_points, ", "));
}

}  // namespace

FakeQuantize quantizer_for(const OnnxCodes& codes, int axis) {
  const bool affine = std::ranges::any_of(codes.zero_points, [](int64_t z) { return z != 0; });
  FakeQuantize op{.bits = codes.bits,
                  .range = range_of(codes),
                  .scheme = affine ? Scheme::Affine : Scheme::Symmetric,
                  .ste = Ste::ClippedIdentity,
                  .scale_mode = Fixed{}};
  if (codes.scales.size() > 1) op.axis = axis;
  // Scales of the file stay as they are.
  for (const float each : codes.scales) op.floor = std::min(op.floor, double{each});
  return op;
}

/// Reads scales and zero points, inputs `k` and `k` + 1, of codes of an ONNX type, 0 if the
/// zero points determine it. `shape` is that of the tensor.
OnnxCodes CodeOperators::codes(int k, int32_t type, const Shape* shape) {
  OnnxCodes result;
  const OnnxConstant& scale = to.constant(node, k);
  expect(scale.is_float && scale.shape.rank() <= 1,
         "input {} must be one scale or a list, got {}", k, to_string(scale.shape));
  expect(node.integer("block_size", 0) == 0, "scales of blocks are not supported");
  settle();
  result.scales = scale.floats;
  for (const float each : result.scales) {
    expect(std::isfinite(each) && each > 0, "scales must be above 0, got {}", each);
  }
  result.zero_points.assign(result.scales.size(), 0);
  if (to.has_input(node, k + 1)) {
    const OnnxConstant& zero_point = to.constant(node, k + 1);
    expect(!zero_point.is_float && zero_point.integers.size() == result.scales.size(),
           "input {} must be {} zero points", k + 1, result.scales.size());
    settle();
    result.zero_points = zero_point.integers;
    if (type == 0) type = zero_point.type;
  }
  if (type == 0) type = onnx::TensorProto::UINT8;
  expect(set_type(result, type), "codes of type {} are not supported", type);
  settle();
  const CodeLimits limits = code_limits(std::min(result.bits, 16), range_of(result));
  for (const int64_t each : result.zero_points) {
    const bool fits =
        result.of_sums() ? each == 0 : each >= limits.q_min && each <= limits.q_max;
    expect(fits, "the zero point {} is outside {} to {}", each,
           result.of_sums() ? 0 : limits.q_min, result.of_sums() ? 0 : limits.q_max);
  }
  const int64_t rank = shape == nullptr ? 0 : shape->rank();
  int64_t axis = node.type() == "QLinearConv" ? 0 : node.integer("axis", 1);
  if (axis < 0) axis += rank;
  if (result.scales.size() > 1 && shape != nullptr) {
    const bool fits = axis >= 0 && axis < rank &&
                      (*shape)[static_cast<int>(axis)] == std::ssize(result.scales);
    expect(fits, "{} scales do not fit axis {} of {}", result.scales.size(), axis,
           to_string(*shape));
  }
  settle();
  if (result.scales.size() > 1) result.axis = static_cast<int>(axis);
  return result;
}

void CodeOperators::quantize() {
  const auto type = static_cast<int32_t>(node.integer("output_dtype", 0));
  if (constant_input()) {
    OnnxConstant found = to.constant(node, 0);
    expect(found.is_float, "input 0 must be floats");
    settle();
    found.codes = codes(1, type, &found.shape);
    return to.add_constant(node.output(0), std::move(found));
  }
  OnnxValue a = x();
  const OnnxCodes own = codes(1, type, nullptr);
  expect(!own.of_sums() && own.scales.size() == 1, "expected one scale for values, got {}",
         own.scales.size());
  settle();
  const auto before = preceding_quantizer(to.graph(), a.id);
  const bool same = before && codes_of(*before) == own;
  if (!same) a.id = quantized(a, own);
  give(std::move(a));
}

NodeId CodeOperators::quantized(const OnnxValue& a, const OnnxCodes& codes) {
  const std::string label = to.node_label(node, "quantized");
  std::vector<NodeId> operands = {a.id, to.add_state(label + ".scale", {1}, {codes.scales[0]})};
  const FakeQuantize op = quantizer_for(codes, 0);
  if (op.scheme == Scheme::Affine) {
    operands.push_back(
        to.add_state(label + ".zero_point", {1}, {static_cast<float>(codes.zero_points[0])}));
  }
  return to.add(op, operands, label);
}

void CodeOperators::dequantize() {
  if (constant_input()) return dequantize_constant(to.constant(node, 0));
  dequantize_value();
}

void CodeOperators::dequantize_constant(const OnnxConstant& stored) {
  const OnnxCodes own = codes(1, stored.codes ? 0 : stored.type, &stored.shape);
  if (stored.codes) {
    expect(own == *stored.codes, "it reads {} as {}", text_of(*stored.codes), text_of(own));
    settle();
    return to.add_constant(node.output(0), stored);
  }
  to.add_constant(node.output(0), values_of(stored, own));
}

OnnxConstant CodeOperators::values_of(const OnnxConstant& stored, const OnnxCodes& codes) {
  expect(!stored.is_float, "expected codes, got floats");
  settle();
  OnnxConstant values{.shape = stored.shape, .codes = codes};
  int64_t inner = 1;
  for (int k = codes.axis + 1; k < stored.shape.rank(); ++k) inner *= stored.shape[k];
  for (size_t i = 0; i < stored.integers.size(); ++i) {
    const size_t channel =
        codes.scales.size() == 1 ? 0 : i / static_cast<size_t>(inner) % codes.scales.size();
    values.floats.push_back(
        static_cast<float>(stored.integers[i] - codes.zero_points[channel]) *
        codes.scales[channel]);
  }
  return values;
}

OnnxCodes CodeOperators::codes_of(NodeId quantizer) const {
  const Node& found = to.graph()[quantizer];
  const auto& op = std::get<FakeQuantize>(found.op);
  const auto numbers = [&](size_t k) {
    const Tensor& state = to.values().at(to.graph()[found.operands[k]].label);
    const auto values = state.values<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  OnnxCodes codes{.bits = op.bits, .is_signed = op.range != CodeRange::Unsigned};
  codes.scales = numbers(1);
  codes.zero_points.assign(codes.scales.size(), 0);
  if (op.scheme == Scheme::Affine) {
    const std::vector<float> zero_points = numbers(2);
    codes.zero_points.assign(zero_points.begin(), zero_points.end());
  }
  return codes;
}

/// Passes on values that lie on a grid already.
void CodeOperators::dequantize_value() {
  OnnxValue a = moved_x();
  const auto quantizer = preceding_quantizer(to.graph(), a.id);
  expect(quantizer.has_value(), "input 0 has no codes of a QuantizeLinear");
  settle();
  const OnnxCodes written = codes_of(*quantizer);
  const OnnxCodes own = codes(1, 0, nullptr);
  expect(own == written, "it reads {} as {}", text_of(written), text_of(own));
  settle();
  give(std::move(a));
}

/// Adds the values of constant `k` under its name without what ONNX Runtime appends to that of
/// codes.
std::string CodeOperators::add_values(int k, OnnxConstant values) {
  constexpr std::string_view ending = "_quantized";
  const std::string& name = node.input(k);
  std::string own = name.ends_with(ending) ? name.substr(0, name.size() - ending.size()) : "";
  if (own.empty() || to.is_constant(own)) own = name + ".values";
  if (!to.is_constant(own)) to.add_constant(own, std::move(values));
  return own;
}

/// Converts a product of codes as one of floats between quantizers.
void CodeOperators::product(const char* type) {
  const OnnxCodes x_codes = codes(1, 0, nullptr), y_codes = codes(6, 0, nullptr);
  const OnnxConstant& w = to.constant(node, 3);
  const OnnxCodes w_codes = codes(4, w.type, &w.shape);
  const auto before = preceding_quantizer(to.graph(), x().id);
  expect(before && codes_of(*before) == x_codes, "input 0 has other codes than {}",
         text_of(x_codes));
  settle();
  onnx::NodeProto inner = node.proto();
  inner.set_op_type(type);
  inner.clear_input();
  inner.add_input(node.input(0));
  inner.add_input(add_values(3, values_of(w, w_codes)));
  if (to.has_input(node, 8)) {
    OnnxCodes sums = w_codes;
    sums.bits = 32;
    sums.axis = 0;
    std::ranges::fill(sums.zero_points, 0);
    for (float& each : sums.scales) each *= x_codes.scales[0];
    inner.add_input(add_values(8, values_of(to.constant(node, 8), sums)));
  }
  for (const auto& each : inner.attribute()) (void)node.has(each.name().c_str());
  const OnnxNode floats(inner);
  OnnxOperators{to, floats, reasons}.run();
  settle();
  OnnxValue y = *to.find_value(node.output(0));
  y.id = quantized(y, y_codes);
  give(std::move(y));
}

void CodeOperators::conv() { product("Conv"); }
void CodeOperators::matmul() { product("MatMul"); }

Graph with_rounded_biases(const Graph& graph) {
  Graph result;
  (void)rewrite(graph, result, [&](NodeId id, std::span<const NodeId> operands) {
    const Node& node = graph[id];
    std::vector<NodeId> own(operands.begin(), operands.end());
    const bool parameter =
        adds_bias(node.op) && std::holds_alternative<Parameter>(result[own[1]].op);
    if (parameter && result[own[0]].operands.size() >= 2) {
      const Node& product = result[own[0]];
      const NodeId x = product.operands[0], w = product.operands[1];
      if (accumulators_have_grid(result, product.op, x, w)) {
        own[1] = result.add(FakeQuantizeBias{}, {own[1], *preceding_quantizer(result, x), w},
                            result[own[1]].label + ".quantized");
      }
    }
    return result.add(node.op, own, node.label);
  });
  return result;
}

namespace {

constexpr OnnxOperator code_rows[] = {
    {"QLinearConv", convert<&CodeOperators::conv>},
    {"QLinearMatMul", convert<&CodeOperators::matmul>},
    {"QuantizeLinear", convert<&CodeOperators::quantize>, true},
    {"DequantizeLinear", convert<&CodeOperators::dequantize>, true}};

}  // namespace

std::span<const OnnxOperator> code_conversions() { return code_rows; }

}  // namespace qtape
