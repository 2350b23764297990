#include "qtape/onnx/export/onnx_writer.h"

#include <fmt/format.h>

#include "qtape/core/error.h"
#include "qtape/onnx/export/value_info.h"
#include "qtape/onnx/tensor_proto.h"

namespace qtape {
namespace {

void set_type(onnx::ValueInfoProto& value, const std::string& name, const TensorType& type,
              const BatchExtent& batch) {
  value.set_name(name);
  auto* tensor = value.mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(onnx_type(type.dtype));
  tensor->mutable_shape();
  for (int axis = 0; axis < type.shape.rank(); ++axis) {
    auto* extent = tensor->mutable_shape()->add_dim();
    if (axis == batch.axis) {
      extent->set_dim_param(batch.name);
    } else {
      extent->set_dim_value(type.shape[axis]);
    }
  }
}

/// Returns the version of the ONNX format that was released with an opset.
int64_t ir_version_of(int64_t opset) {
  if (opset >= 21) return 10;
  if (opset >= 19) return 9;
  return opset >= 15 ? 8 : 7;
}

}  // namespace

int32_t onnx_type(DType dtype) {
  using Proto = onnx::TensorProto;
  switch (dtype) {
    case DType::S8:
      return Proto::INT8;
    case DType::U8:
      return Proto::UINT8;
    case DType::S16:
      return Proto::INT16;
    case DType::U16:
      return Proto::UINT16;
    case DType::S32:
      return Proto::INT32;
    case DType::S64:
      return Proto::INT64;
    default:
      return Proto::FLOAT;
  }
}

OnnxWriter::OnnxWriter(int64_t opset) {
  model_->set_ir_version(ir_version_of(opset));
  model_->set_producer_name("qtape");
  model_->set_producer_version(QTAPE_VERSION);
  auto* imported = model_->add_opset_import();
  imported->set_domain("");
  imported->set_version(opset);
  model_->mutable_graph()->set_name("qtape");
}

void OnnxWriter::use_domain(std::string_view domain, int64_t version) {
  auto* imported = model_->add_opset_import();
  imported->set_domain(std::string(domain));
  imported->set_version(version);
}

void OnnxWriter::metadata(const std::string& key, const std::string& value) {
  auto& entry = *model_->add_metadata_props();
  entry.set_key(key);
  entry.set_value(value);
}

std::string OnnxWriter::bytes() {
  add_value_info(*model_->mutable_graph());
  std::string text;
  require<GraphError>(model_->SerializeToString(&text),
                      "is too large for an ONNX file, which has at most 2 GiB");
  return text;
}

std::string OnnxWriter::unique(std::string_view wanted) {
  const auto [known, added] = names_.try_emplace(std::string(wanted), 2);
  if (added) return known->first;
  std::string name;
  do {
    name = fmt::format("{}_{}", wanted, known->second++);
  } while (!names_.try_emplace(name, 2).second);
  return name;
}

onnx::TensorProto& OnnxWriter::initializer(std::string_view name, DType dtype,
                                           const Shape& shape) {
  onnx::TensorProto& tensor = *model_->mutable_graph()->add_initializer();
  tensor.set_name(unique(name));
  tensor.set_data_type(onnx_type(dtype));
  for (int64_t extent : shape.extents()) tensor.add_dims(extent);
  return tensor;
}

std::string OnnxWriter::constant_of_4_bits(std::string_view name, const Shape& shape,
                                           std::span<const int8_t> codes) {
  std::string packed((codes.size() + 1) / 2, '\0');
  for (size_t i = 0; i < codes.size(); ++i) {
    const int bits = (codes[i] & 15) << (i % 2 == 0 ? 0 : 4);
    packed[i / 2] = static_cast<char>(packed[i / 2] | bits);
  }
  onnx::TensorProto& tensor = initializer(name, DType::S8, shape);
  tensor.set_data_type(onnx_int4);
  tensor.set_raw_data(packed);
  return tensor.name();
}

std::string OnnxWriter::numbers(std::string_view name, const std::vector<int64_t>& values) {
  return constant<int64_t>(name, DType::S64, {static_cast<int64_t>(values.size())}, values);
}

onnx::NodeProto& OnnxWriter::node(std::string_view op, const std::vector<std::string>& inputs,
                                  std::string_view output) {
  onnx::NodeProto& node = *model_->mutable_graph()->add_node();
  node.set_op_type(std::string(op));
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(unique(output));
  node.set_name(node.output(0));
  return node;
}

void OnnxWriter::input(const std::string& name, const TensorType& type,
                       const BatchExtent& batch) {
  set_type(*model_->mutable_graph()->add_input(), name, type, batch);
}

void OnnxWriter::output(const std::string& name, const TensorType& type,
                        const BatchExtent& batch) {
  set_type(*model_->mutable_graph()->add_output(), name, type, batch);
}

}  // namespace qtape
