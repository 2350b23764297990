#include "qtape/onnx/import/integer_products.h"

#include "qtape/onnx/import/quantized.h"
#include "qtape/onnx/onnx_node.h"
#include "qtape/onnx/tensor_proto.h"

namespace qtape {

bool is_integer_product(const onnx::NodeProto& node) {
  return node.domain().empty() &&
         (node.op_type() == "MatMulInteger" || node.op_type() == "ConvInteger");
}

IntegerProducts::IntegerProducts(onnx::GraphProto& graph) : graph_(graph) {
  for (const onnx::NodeProto& node : graph.node()) {
    for (const std::string& each : node.output()) producers_[each] = &node;
  }
  for (const auto& tensor : graph.initializer()) tensors_[tensor.name()] = &tensor;
}

const onnx::NodeProto* IntegerProducts::node_of(const std::string& name,
                                                std::string_view type) const {
  const auto found = producers_.find(name);
  const bool fits = found != producers_.end() && found->second->input_size() > 0 &&
                    (type.empty() || found->second->op_type() == type);
  return fits ? found->second : nullptr;
}

const onnx::NodeProto* IntegerProducts::product_of(const std::string& name) const {
  const onnx::NodeProto* cast = node_of(name, "Cast");
  if (cast == nullptr || OnnxNode(*cast).integer("to", 0) != onnx::TensorProto::FLOAT) {
    return nullptr;
  }
  const onnx::NodeProto* product = node_of(cast->input(0));
  const bool fits =
      product != nullptr && is_integer_product(*product) && product->input_size() >= 2;
  return fits ? product : nullptr;
}

const onnx::NodeProto* IntegerProducts::quantizer_of(const std::string& name) const {
  const onnx::NodeProto* node = node_of(name);
  for (int steps = 0; node != nullptr && onnx_moves_codes(node->op_type()); ++steps) {
    if (steps > graph_.node_size()) return nullptr;
    node = node_of(node->input(0));
  }
  const bool fits =
      node != nullptr && node->op_type() == "QuantizeLinear" && node->input_size() >= 2;
  return fits ? node : nullptr;
}

std::optional<std::vector<float>> IntegerProducts::floats(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end() || found->second->data_type() != onnx::TensorProto::FLOAT ||
      found->second->data_location() == onnx::TensorProto::EXTERNAL) {
    return {};
  }
  return read_constant(*found->second).floats;
}

bool IntegerProducts::scales_outputs(const std::string& name,
                                     const onnx::NodeProto& product) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return true;
  const auto& dims = found->second->dims();
  int64_t count = 1;
  for (const int64_t each : dims) {
    if (each != 1 && count != 1) return false;
    count *= each;
  }
  if (count == 1) return true;
  const auto weights = tensors_.find(product.input(1));
  const bool matmul = product.op_type() == "MatMulInteger";
  if (!matmul && weights == tensors_.end()) return false;
  const int from_end = matmul ? 1 : weights->second->dims_size() - 1;
  return from_end >= 1 && dims.size() >= from_end && dims[dims.size() - from_end] == count;
}

std::optional<std::string> IntegerProducts::weight_scales(const std::string& scales,
                                                          const std::string& x_scale,
                                                          NamedNodes& nodes) {
  if (const onnx::NodeProto* both = node_of(scales, "Mul"); both != nullptr) {
    if (both->input_size() != 2) return {};
    if (both->input(0) == x_scale) return both->input(1);
    if (both->input(1) == x_scale) return both->input(0);
  }
  const auto sums = floats(scales), x = floats(x_scale);
  if (!sums || !x || x->size() != 1) return {};
  onnx::TensorProto& own = *graph_.add_initializer();
  own.set_name(nodes.free_name(scales + "_weight_scale"));
  own.set_data_type(onnx::TensorProto::FLOAT);
  if (sums->size() > 1) own.add_dims(std::ssize(*sums));
  for (const float each : *sums) own.add_float_data(each / (*x)[0]);
  return own.name();
}

bool IntegerProducts::expand(const onnx::NodeProto& node, NamedNodes& nodes) {
  if (node.op_type() != "Mul" || node.input_size() != 2) return false;
  const int sums = product_of(node.input(0)) != nullptr ? 0 : 1;
  const onnx::NodeProto* product = product_of(node.input(sums));
  if (product == nullptr) return false;
  const onnx::NodeProto* before = quantizer_of(product->input(0));
  if (before == nullptr) return false;
  if (!scales_outputs(node.input(1 - sums), *product)) return false;
  const auto scales = weight_scales(node.input(1 - sums), before->input(1), nodes);
  if (!scales || !scales_outputs(*scales, *product)) return false;
  const OnnxNode read(*product);
  const bool matmul = read.type() == "MatMulInteger";
  onnx::NodeProto inner = *product;
  inner.set_op_type(matmul ? "MatMul" : "Conv");
  inner.clear_input();
  inner.add_input(
      nodes.dequantized(*product, {read.input(0), before->input(1), read.input(2)}, 1));
  inner.add_input(
      nodes.dequantized(*product, {read.input(1), *scales, read.input(3)}, matmul ? -1 : 0));
  inner.set_output(0, node.output(0));
  nodes.add(inner);
  return true;
}

}  // namespace qtape
