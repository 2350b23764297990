// ONNX models with one input, built by tests.
#pragma once

#include <doctest/doctest.h>
#include <onnx/onnx_pb.h>

#include <string>
#include <vector>

#include "qtape/onnx/import.h"
#include "qtape/tests/support/errors.h"

namespace qtape::test::onnx_models {

/// Returns a model of opset 13 with one input x of `extents` and the nodes that `build` adds.
template <class Build>
std::string model_of(std::vector<int64_t> extents, const Build& build) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  auto* opset = model.add_opset_import();
  opset->set_version(13);
  auto* graph = model.mutable_graph();
  auto* input = graph->add_input();
  input->set_name("x");
  auto* type = input->mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnx::TensorProto::FLOAT);
  for (const int64_t extent : extents) type->mutable_shape()->add_dim()->set_dim_value(extent);
  graph->add_output()->set_name("y");
  build(*graph, model);
  return model.SerializeAsString();
}

inline onnx::NodeProto& add_node(onnx::GraphProto& graph, const char* op,
                                 const std::vector<std::string>& inputs,
                                 const char* output = "y") {
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type(op);
  node.set_name(std::string("the ") + op);
  for (const std::string& each : inputs) node.add_input(each);
  node.add_output(output);
  return node;
}

inline onnx::TensorProto& add_floats(onnx::GraphProto& graph, const char* name,
                                     std::vector<int64_t> extents,
                                     const std::vector<float>& values) {
  onnx::TensorProto& tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  for (const int64_t each : extents) tensor.add_dims(each);
  for (const float each : values) tensor.add_float_data(each);
  return tensor;
}

inline void set_integers(onnx::NodeProto& node, const char* name, std::vector<int64_t> values) {
  auto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INTS);
  for (const int64_t each : values) attribute.add_ints(each);
}

inline std::string error_of(const std::string& bytes) {
  return test::error_text<FormatError>([&] { (void)parse_onnx(bytes, "m.onnx"); });
}

/// Checks the error for a model with one input of `extents` and the nodes that `build` adds.
template <class Build>
void refused(const std::string& text, std::vector<int64_t> extents, const Build& build) {
  CHECK(error_of(model_of(std::move(extents), build)) == text);
}

}  // namespace qtape::test::onnx_models
