#include "qtape/onnx/export/value_info.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "qtape/onnx/interpreter/interpreter_ops.h"
#include "qtape/onnx/onnx_node.h"
#include "qtape/onnx/tensor_proto.h"

namespace qtape {
namespace {

constexpr int64_t any_batch = -1;

OnnxType type_of(const onnx::ValueInfoProto& input) {
  const auto& tensor = input.type().tensor_type();
  OnnxType type{tensor.elem_type(), {}};
  for (const auto& extent : tensor.shape().dim()) {
    type.shape.push_back(extent.has_dim_param() ? any_batch : extent.dim_value());
  }
  return type;
}

void write(onnx::ValueInfoProto& info, const std::string& name, const OnnxType& type) {
  info.set_name(name);
  auto& tensor = *info.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type.element);
  tensor.mutable_shape();
  for (const int64_t extent : type.shape) {
    auto& written = *tensor.mutable_shape()->add_dim();
    if (extent == any_batch) {
      written.set_dim_param("batch");
    } else {
      written.set_dim_value(extent);
    }
  }
}

}  // namespace

void add_value_info(onnx::GraphProto& graph) {
  std::map<std::string, OnnxType> values;
  std::map<std::string, std::vector<int64_t>> constants;
  for (const auto& tensor : graph.initializer()) {
    values[tensor.name()] = {tensor.data_type(), {tensor.dims().begin(), tensor.dims().end()}};
    if (tensor.data_type() == onnx::TensorProto::INT64) {
      constants[tensor.name()] = read_constant(tensor).integers;
    }
  }
  for (const auto& input : graph.input()) values[input.name()] = type_of(input);
  std::set<std::string> outputs;
  for (const auto& output : graph.output()) outputs.insert(output.name());
  for (const onnx::NodeProto& proto : graph.node()) {
    const OnnxNode node(proto);
    const OnnxType type = onnx_type({node, values, constants});
    values[node.output(0)] = type;
    if (!outputs.contains(node.output(0))) {
      write(*graph.add_value_info(), node.output(0), type);
    }
  }
}

}  // namespace qtape
