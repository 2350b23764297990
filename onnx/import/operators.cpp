#include "qtape/onnx/import/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "qtape/integer/rules/quantizer_of.h"
#include "qtape/onnx/import/code_nodes.h"
#include "qtape/onnx/import/integer_products.h"
#include "qtape/onnx/import/quantized.h"

namespace qtape {
namespace {

auto conversions() {
  return std::array{product_conversions(), window_conversions(),    element_conversions(),
                    einsum_conversions(),  pointwise_conversions(), recurrent_conversions(),
                    norm_conversions(),    selection_conversions(), structure_conversions(),
                    move_conversions(),    resize_conversions(),    constant_conversions(),
                    code_conversions()};
}

}  // namespace

std::vector<std::string_view> onnx_operators() {
  std::vector<std::string_view> types;
  for (const auto family : conversions()) {
    for (const OnnxOperator& each : family) types.push_back(each.type);
  }
  const auto of_codes = onnx_code_operators();
  types.insert(types.end(), of_codes.begin(), of_codes.end());
  return types;
}

std::array<std::span<const OnnxOperator>, 5> constant_folds() {
  return {number_folds(), structure_folds(), repetition_folds(), product_folds(),
          function_folds()};
}

LeakyRelu onnx_leaky_relu(const OnnxNode& node) {
  return {.negative_slope = double{node.real("alpha", 0.01f)}};
}

Elu onnx_elu(const OnnxNode& node) { return {.alpha = double{node.real("alpha", 1)}}; }

std::optional<HardSigmoid> onnx_hard_sigmoid(float alpha, float beta) {
  constexpr float sixth = 1.0f / 6.0f;
  const bool same = std::abs(alpha - sixth) < 1e-6f && beta == 0.5f;
  return same ? std::optional(HardSigmoid{}) : std::nullopt;
}

bool onnx_is_of_elements(std::string_view type) {
  for (const auto family : conversions()) {
    const auto found = std::ranges::find(family, type, &OnnxOperator::type);
    if (found != family.end()) return found->each_element;
  }
  return false;
}

void OnnxOperators::run() const {
  // Attributes without effect on values.
  for (const char* ignored : {"storage_order", "seed", "saturate"}) (void)node.has(ignored);
  require<FormatError>(node.domain().empty(), "operators of the domain '{}' are not supported",
                       printable(node.domain()));
  if (node.inputs() > 0 && to.reads_constants(node)) {
    for (const auto family : constant_folds()) {
      const auto found = std::ranges::find(family, node.type(), &OnnxOperator::type);
      if (found != family.end()) return found->convert(*this);
    }
  }
  expect_codes();
  expect_equal_rows();
  if (row_steps() > 0) return OnnxOperators(*this).convert_step_rows();
  if (!is_of_sequences()) return convert_by_family();
  const auto rows = sequence_conversions();
  const auto found = std::ranges::find(rows, node.type(), &OnnxOperator::type);
  if (found != rows.end()) return found->convert(*this);
  if (node.type().starts_with("Reduce")) return reduce_sequences();
  const int batch = batch_without_place();
  if (batch < 0) return convert_by_family();
  to.with_batch_first(node, batch, [&] { convert_by_family(); });
}

void OnnxOperators::convert_by_family() const {
  for (const auto family : conversions()) {
    const auto found = std::ranges::find(family, node.type(), &OnnxOperator::type);
    if (found != family.end()) return found->convert(*this);
  }
  fail<FormatError>("the operator is not supported: {}", onnx_remedy(node.type()));
}

void OnnxOperators::expect_weights(int k, int rank, std::string_view kind) {
  const std::string& name = node.input(k);
  if (to.is_unknown(name)) return;
  const OnnxConstant* found = to.find_constant(name);
  expect(found != nullptr, "input {}, '{}', must be a constant", k, printable(name));
  if (found == nullptr) return;
  expect(found->is_float && (rank == 0 || found->shape.rank() == rank), "input {} must be {}",
         k, kind);
}

void OnnxOperators::give_channels_last(NodeId y, int64_t channels) {
  const auto lies = to.graph()[y].type.shape.extents();
  OnnxValue result{
      .id = y, .shape = {x().shape[0], channels}, .layout = OnnxLayout::ChannelsLast};
  result.shape.insert(result.shape.end(), lies.begin() + 1, lies.end() - 1);
  give(std::move(result));
}

std::vector<int64_t> OnnxOperators::squeezed_axes(const OnnxValue& a) {
  std::vector<int64_t> axes;
  for (int k = 0; k < a.rank(); ++k) {
    if (k != a.batch && a.shape[static_cast<size_t>(k)] == 1) axes.push_back(k);
  }
  return axes;
}

void OnnxOperators::expect_equal_rows() const {
  int64_t rows = 0;
  for (int k = 0; k < node.inputs(); ++k) {
    const OnnxValue* found = to.find_value(node.input(k));
    if (found == nullptr) continue;
    const int64_t own = found->shape[static_cast<size_t>(found->batch)];
    require<FormatError>(rows == 0 || own == rows, "inputs have {} and {} rows for each sample",
                         rows, own);
    rows = own;
  }
}

bool OnnxOperators::moves_codes() const {
  if (node.type() == "Concat") {
    for (int k = 0; k < node.inputs(); ++k) {
      if (!to.holds_codes(node.input(k))) return false;
    }
    return true;
  }
  if (node.type() == "Clip" || node.type() == "Pad") return true;
  if (node.type() == "Resize" || node.type() == "Upsample") {
    return node.text("mode", "nearest") == "nearest";
  }
  if (node.type() != "Cast") return onnx_moves_codes(node.type());
  const OnnxValue* found = to.find_value(node.input(0));
  if (found == nullptr) return false;
  const auto quantizer = preceding_quantizer(to.graph(), found->id);
  return quantizer && onnx_code_type(to, *quantizer) == node.integer("to", 0);
}

void OnnxOperators::expect_codes() const {
  if (is_integer_product(node.proto())) return;
  const bool reads = node.type() == "DequantizeLinear", moves = moves_codes();
  for (int k = 0; k < node.inputs(); ++k) {
    if (!to.holds_codes(node.input(k))) continue;
    require<FormatError>(reads || moves,
                         "input {}, '{}', holds codes of a QuantizeLinear: expected a "
                         "DequantizeLinear before this node",
                         k, printable(node.input(k)));
  }
  const bool coded = moves && node.inputs() > 0 && to.holds_codes(node.input(0));
  if (node.type() != "QuantizeLinear" && !coded) return;
  for (int k = 0; k < node.outputs(); ++k) to.mark_codes(node.output(k));
}

void OnnxOperators::same() { give(x()); }

}  // namespace qtape
