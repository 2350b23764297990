// Small ONNX models for tests, and their answers after import.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "qtape/engine/tape.h"
#include "qtape/onnx/import.h"
#include "qtape/onnx/tensor_proto.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/small_nets.h"

namespace qtape::test::onnx_models {

using Numbers = std::vector<float>;
using Extents = std::vector<int64_t>;

/// The end of errors for nodes that mix the samples of models with a batch of 1.
inline const std::string hidden_by_batch_of_1 =
    "; the batch of 1 hides this: export with dynamic_axes for the axis of the samples";

/// Returns integers of any type, those of 4 bits two in a byte.
inline onnx::TensorProto codes(const Extents& extents, const Extents& values, int32_t type) {
  onnx::TensorProto tensor;
  tensor.set_data_type(type);
  for (const int64_t each : extents) tensor.add_dims(each);
  if (type == onnx_int4 || type == onnx_uint4) {
    std::string raw((values.size() + 1) / 2, '\0');
    for (size_t i = 0; i < values.size(); ++i) {
      const int bits = static_cast<int>(values[i] & 15) << (i % 2 == 0 ? 0 : 4);
      raw[i / 2] = static_cast<char>(raw[i / 2] | bits);
    }
    tensor.set_raw_data(raw);
    return tensor;
  }
  for (const int64_t each : values) {
    type == onnx::TensorProto::INT64 ? tensor.add_int64_data(each)
                                     : tensor.add_int32_data(static_cast<int32_t>(each));
  }
  return tensor;
}
inline onnx::TensorProto ints(const Extents& values) {
  return codes({std::ssize(values)}, values, onnx::TensorProto::INT64);
}
inline onnx::TensorProto floats(const Extents& extents, const Numbers& values) {
  onnx::TensorProto tensor;
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  for (const int64_t each : extents) tensor.add_dims(each);
  for (const float each : values) tensor.add_float_data(each);
  return tensor;
}
inline onnx::TensorProto number(float value) { return floats({}, {value}); }

/// An input of a node: the name of a value, or a constant.
using OnnxInput = std::variant<std::string, onnx::TensorProto>;
using OnnxInputs = std::vector<OnnxInput>;

/// A model with one input x and one output y.
class OnnxModel {
 public:
  explicit OnnxModel(const Extents& extents, int64_t opset = 17,
                     int32_t type = onnx::TensorProto::FLOAT) {
    model_.set_ir_version(8);
    model_.add_opset_import()->set_version(opset);
    graph_input("x", extents, type);
    graph().add_output()->set_name("y");
  }

  onnx::ModelProto& proto() { return model_; }
  onnx::GraphProto& graph() { return *model_.mutable_graph(); }
  /// The last node.
  onnx::NodeProto& last() { return *graph().mutable_node(graph().node_size() - 1); }

  /// Adds an input; an extent below 0 is a dynamic batch.
  OnnxModel& graph_input(const char* name, const Extents& extents,
                         int32_t type = onnx::TensorProto::FLOAT) {
    auto* input = graph().add_input();
    input->set_name(name);
    auto* tensor = input->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    for (const int64_t each : extents) {
      auto* dim = tensor->mutable_shape()->add_dim();
      each < 0 ? dim->set_dim_param("batch") : dim->set_dim_value(each);
    }
    return *this;
  }
  OnnxModel& constant(const std::string& name, const onnx::TensorProto& tensor) {
    auto& added = *graph().add_initializer();
    added = tensor;
    added.set_name(name);
    return *this;
  }
  OnnxModel& floats(const std::string& name, const Extents& extents, const Numbers& values) {
    return constant(name, onnx_models::floats(extents, values));
  }
  OnnxModel& integers(const std::string& name, const Extents& values,
                      int32_t type = onnx::TensorProto::INT64) {
    return codes(name, {std::ssize(values)}, values, type);
  }
  OnnxModel& codes(const std::string& name, const Extents& extents, const Extents& values,
                   int32_t type) {
    return constant(name, onnx_models::codes(extents, values, type));
  }
  /// Sets the domain of the last node.
  OnnxModel& of_domain(const char* domain) {
    last().set_domain(domain);
    return *this;
  }
  OnnxModel& named(const char* name) {
    last().set_name(name);
    return *this;
  }
  /// Sets an input of the last node, or adds one.
  OnnxModel& input(int k, const char* name) {
    if (k == last().input_size()) last().add_input();
    last().set_input(k, name);
    return *this;
  }
  OnnxModel& node(const std::string& type, const OnnxInputs& inputs,
                  const std::vector<std::string>& outputs = {"y"}) {
    auto& node = *graph().add_node();
    node.set_op_type(type);
    node.set_name("the " + type);
    for (const OnnxInput& each : inputs) {
      const auto* name = std::get_if<std::string>(&each);
      if (name == nullptr) constant(fmt::format("c{}", names_), std::get<1>(each));
      node.add_input(name == nullptr ? fmt::format("c{}", names_++) : *name);
    }
    for (const std::string& each : outputs) node.add_output(each);
    return *this;
  }
  OnnxModel& transposed(const std::string& x, const Extents& perm, const std::string& y = "y") {
    return node("Transpose", {x}, {y}).with("perm", perm);
  }
  /// Adds y, the values of codes with scales along an axis.
  OnnxModel& dequantized(const OnnxInputs& inputs, const std::string& y, int64_t axis) {
    return node("DequantizeLinear", inputs, {y}).with("axis", axis);
  }
  /// Adds y, the values x on a grid, by a QuantizeLinear and a DequantizeLinear.
  OnnxModel& rounded(const char* x, const OnnxInput& scale, const OnnxInput& zero_point,
                     const std::string& y = "y") {
    const std::string q = y + ".codes";
    return node("QuantizeLinear", {x, scale, zero_point}, {q})
        .node("DequantizeLinear", {q, scale, zero_point}, {y});
  }
  /// Adds a node that reads `inputs`; returns the name of its output.
  std::string apply(const char* type, const OnnxInputs& inputs) {
    const std::string output = fmt::format("v{}", names_++);
    node(type, inputs, {output});
    return output;
  }
  /// Adds a node that reads what y was so far, or else x, and `others`.
  OnnxModel& then(const char* type, const OnnxInputs& others = {}) {
    OnnxInputs inputs = {"x"};
    if (graph().node_size() > 0) {
      inputs[0] = fmt::format("v{}", names_++);
      last().set_output(0, std::get<std::string>(inputs[0]));
    }
    inputs.insert(inputs.end(), others.begin(), others.end());
    return node(type, inputs);
  }
  OnnxModel& with(const char* name, float value) {
    auto& attribute = added(name, onnx::AttributeProto::FLOAT);
    attribute.set_f(value);
    return *this;
  }
  OnnxModel& with(const char* name, std::integral auto value) {
    added(name, onnx::AttributeProto::INT).set_i(static_cast<int64_t>(value));
    return *this;
  }
  OnnxModel& with(const char* name, const Extents& values) {
    auto& attribute = added(name, onnx::AttributeProto::INTS);
    for (const int64_t each : values) attribute.add_ints(each);
    return *this;
  }
  OnnxModel& with(const char* name, const char* value) {
    added(name, onnx::AttributeProto::STRING).set_s(value);
    return *this;
  }
  OnnxModel& with(const char* name, const onnx::TensorProto& value) {
    *added(name, onnx::AttributeProto::TENSOR).mutable_t() = value;
    return *this;
  }
  OnnxModel& output(const char* name) {
    graph().add_output()->set_name(name);
    return *this;
  }
  std::string bytes() const { return model_.SerializeAsString(); }
  SavedModel imported(std::vector<std::string>* notes = nullptr) const {
    return parse_onnx(bytes(), "m.onnx", notes);
  }

 private:
  onnx::AttributeProto& added(const char* name, onnx::AttributeProto::AttributeType type) {
    auto& attribute = *last().add_attribute();
    attribute.set_name(name);
    attribute.set_type(type);
    return attribute;
  }

  onnx::ModelProto model_;
  int names_ = 0;
};

/// Returns the parameters of a model at its batch.
inline Parameters parameters_of(const SavedModel& model) {
  Parameters parameters(model.graph, 0);
  for (const ParameterEntry& each : model.parameters.entries()) {
    parameters.set(each.name, model.parameters.get(each.name));
  }
  return parameters;
}

/// Returns output `k` for the input x, whose samples come first.
template <class T>
Numbers answer(const SavedModel& model, const std::vector<T>& x, int64_t samples,
               size_t k = 0) {
  Parameters parameters = parameters_of(model);
  Tape tape(model.graph.with_batch(samples), parameters, {});
  const auto input = tape.input<T>("x");
  REQUIRE(input.size() == x.size());
  std::ranges::copy(x, input.begin());
  tape.forward(mode::eval);
  return copied(tape.value<float>(model.graph.outputs()[k]));
}

template <class T>
Numbers answer(const OnnxModel& model, const std::vector<T>& x, int64_t samples, size_t k = 0) {
  return answer(model.imported(), x, samples, k);
}

/// Returns the shape of the first output.
inline Shape answer_shape(const SavedModel& model) {
  return model.graph[model.graph.outputs()[0]].type.shape;
}
inline Shape answer_shape(const OnnxModel& model) { return answer_shape(model.imported()); }

template <class T>
int64_t number_of(const SavedModel& model) {
  return std::ranges::count_if(
      model.graph.nodes(), [](const Node& node) { return std::holds_alternative<T>(node.op); });
}

template <class T>
int64_t number_of(const OnnxModel& model) {
  return number_of<T>(model.imported());
}

inline void check_close(const Numbers& got, const std::vector<double>& wanted,
                        double tolerance = 2e-6) {
  REQUIRE(got.size() == wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    if (double{got[i]} == wanted[i]) continue;  // also infinities
    const double allowed = tolerance * std::max(1.0, std::fabs(wanted[i]));
    CHECK(std::fabs(double{got[i]} - wanted[i]) <= allowed);
  }
}

inline std::string error_of(const OnnxModel& model) {
  return error_text<FormatError>([&] { (void)model.imported(); });
}

/// Checks the error of a model, which begins with its name.
inline void refused(const OnnxModel& model, const std::string& error) {
  CHECK(error_of(model) == "m.onnx: " + error);
}

}  // namespace qtape::test::onnx_models
