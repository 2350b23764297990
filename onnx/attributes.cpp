#include "qtape/onnx/attributes.h"

#include <string>

#include "qtape/onnx/onnx_node.h"

namespace qtape {

void set_attribute(onnx::NodeProto& node, std::string_view name, int64_t value) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(std::string(name));
  attribute.set_type(onnx::AttributeProto::INT);
  attribute.set_i(value);
}

void set_attribute(onnx::NodeProto& node, std::string_view name,
                   const std::vector<int64_t>& values) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(std::string(name));
  attribute.set_type(onnx::AttributeProto::INTS);
  for (int64_t value : values) attribute.add_ints(value);
}

void set_attribute(onnx::NodeProto& node, std::string_view name, const char* value) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(std::string(name));
  attribute.set_type(onnx::AttributeProto::STRING);
  attribute.set_s(value);
}

void set_real_attribute(onnx::NodeProto& node, std::string_view name, float value) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(std::string(name));
  attribute.set_type(onnx::AttributeProto::FLOAT);
  attribute.set_f(value);
}

}  // namespace qtape
