#include "qtape/onnx/import/code_nodes.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/onnx/import/integer_products.h"
#include "qtape/onnx/import/named_nodes.h"
#include "qtape/onnx/onnx_node.h"

namespace qtape {
namespace {

constexpr std::string_view microsoft = "com.microsoft";

/// An operator of codes. Each coded operand is three inputs: codes, scale and zero point.
struct CodeOperator {
  std::string_view type;
  std::string_view floats;  ///< the operator of their values
  int operands;             ///< their number; -1 for all inputs after `result`
  int result;               ///< input that is the scale of the result
  int bias = -1;            ///< input that is the bias in 32 bits
  std::string_view domain = {};
};

constexpr CodeOperator code_operators[] = {
    {"QLinearConv", "Conv", 2, 6, 8},
    {"QLinearMatMul", "MatMul", 2, 6},
    {"QGemm", "Gemm", 2, 7, 6, microsoft},
    {"QLinearAdd", "Add", 2, 6, -1, microsoft},
    {"QLinearMul", "Mul", 2, 6, -1, microsoft},
    {"QLinearSigmoid", "Sigmoid", 1, 3, -1, microsoft},
    {"QLinearLeakyRelu", "LeakyRelu", 1, 3, -1, microsoft},
    {"QLinearSoftmax", "Softmax", 1, 3, -1, microsoft},
    {"QLinearAveragePool", "AveragePool", 1, 3, -1, microsoft},
    {"QLinearGlobalAveragePool", "GlobalAveragePool", 1, 3, -1, microsoft},
    {"QLinearReduceMean", "ReduceMean", 1, 3, -1, microsoft},
    {"QLinearConcat", "Concat", -1, 0, -1, microsoft}};

const CodeOperator* code_operator(const onnx::NodeProto& node) {
  const auto found = std::ranges::find_if(code_operators, [&](const CodeOperator& each) {
    return each.type == node.op_type() && each.domain == node.domain();
  });
  return found == std::end(code_operators) ? nullptr : &*found;
}

/// Removes an attribute that does not change the operator; others are refused by name.
template <class Neutral>
void drop_attribute(onnx::NodeProto& node, std::string_view name, const Neutral& neutral) {
  auto& attributes = *node.mutable_attribute();
  const auto found = std::ranges::find(attributes, name, &onnx::AttributeProto::name);
  if (found == attributes.end() || found->type() != onnx::AttributeProto::INT) return;
  if (neutral(found->i())) attributes.erase(found);
}

class Expansion {
 public:
  Expansion(onnx::GraphProto& graph, int64_t opset)
      : graph_(graph), nodes_(graph), products_(graph), opset_(opset) {}

  void run() {
    for (const onnx::NodeProto& node : graph_.node()) {
      const CodeOperator* row = code_operator(node);
      if (row != nullptr && node.output_size() == 1) {
        expand(node, *row);
      } else if (!products_.expand(node, nodes_)) {
        onnx::NodeProto& kept = nodes_.add(node);
        if (is_quantizer(node)) kept.clear_domain();
      }
    }
    nodes_.replace_those_of(graph_);
  }

 private:
  /// True for the quantizers of com.microsoft, which compute what those of ONNX do.
  static bool is_quantizer(const onnx::NodeProto& node) {
    return node.domain() == microsoft &&
           (node.op_type() == "QuantizeLinear" || node.op_type() == "DequantizeLinear");
  }

  void expand(const onnx::NodeProto& node, const CodeOperator& row) {
    const OnnxNode read(node);
    onnx::NodeProto inner = node;
    inner.set_op_type(std::string(row.floats));
    inner.clear_domain();
    inner.clear_input();
    drop_attribute(inner, "channels_last", [](int64_t each) { return each == 0; });
    // Softmax has another meaning from opset 13 on.
    drop_attribute(inner, "opset",
                   [&](int64_t each) { return (each >= 13) == (opset_ >= 13); });
    const int first = row.operands < 0 ? row.result + 2 : 0;
    const int count = row.operands < 0 ? (read.inputs() - first + 2) / 3 : row.operands;
    for (int k = 0; k < count; ++k) {
      const int at = first + 3 * k;
      inner.add_input(nodes_.dequantized(
          node, {read.input(at), read.input(at + 1), read.input(at + 2)}, axis_of(read)));
    }
    if (row.bias >= 0 && !read.input(row.bias).empty()) {
      inner.add_input(
          nodes_.dequantized_bias(node, read.input(row.bias), read.input(1), read.input(4)));
    }
    const std::string scale = read.input(row.result), zero_point = read.input(row.result + 1);
    // A QGemm without a scale of its result gives floats.
    if (scale.empty()) return (void)nodes_.add(inner);
    const std::string floats = nodes_.free_name(node.output(0) + "_QuantizeLinear_Input");
    inner.set_output(0, floats);
    nodes_.add(inner);
    nodes_.add(node, "QuantizeLinear", {floats, scale, zero_point}, node.output(0));
  }

  /// Returns the axis of the output channels in the weights of a product.
  static int64_t axis_of(const OnnxNode& node) {
    if (node.type() == "QLinearConv") return 0;
    if (node.type() == "QGemm") return node.integer("transB", 0) != 0 ? 0 : 1;
    return -1;
  }

  onnx::GraphProto& graph_;
  NamedNodes nodes_;
  IntegerProducts products_;
  int64_t opset_;
};

}  // namespace

std::vector<std::string_view> onnx_code_operators() {
  std::vector<std::string_view> types;
  for (const CodeOperator& each : code_operators) types.push_back(each.type);
  return types;
}

void expand_code_operators(onnx::GraphProto& graph, int64_t opset) {
  const bool any = std::ranges::any_of(graph.node(), [](const onnx::NodeProto& node) {
    return code_operator(node) != nullptr || node.domain() == microsoft ||
           is_integer_product(node);
  });
  if (any) Expansion(graph, opset).run();
}

}  // namespace qtape
