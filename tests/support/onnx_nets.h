// Small ONNX models, and what their operators give by plain loops of their definitions.
#pragma once

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "qtape/engine/tape.h"
#include "qtape/onnx/import.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/small_nets.h"

namespace qtape::test::onnx_nets {

using Numbers = std::vector<int64_t>;

/// An array as ONNX has it, with one sample.
struct OnnxGiven {
  Numbers shape;
  std::vector<float> values;
};

inline int64_t count(const Numbers& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

inline OnnxGiven numbered(const Numbers& shape) {
  OnnxGiven x{shape, std::vector<float>(static_cast<size_t>(count(shape)))};
  std::iota(x.values.begin(), x.values.end(), 1.0f);
  return x;
}

/// Returns an array of `shape` whose element at each index is that of x at `from(index)`; 0
/// where that is empty.
inline OnnxGiven chosen(const OnnxGiven& x, const Numbers& shape,
                        const std::function<Numbers(const Numbers&)>& from) {
  OnnxGiven y{shape, {}};
  Numbers at(shape.size(), 0);
  for (int64_t i = 0; i < count(shape); ++i) {
    int64_t rest = i;
    for (size_t k = shape.size(); k-- > 0;) {
      at[k] = rest % shape[k];
      rest /= shape[k];
    }
    const Numbers index = from(at);
    int64_t place = 0;
    for (size_t k = 0; k < index.size(); ++k) place = place * x.shape[k] + index[k];
    y.values.push_back(index.empty() ? 0 : x.values[static_cast<size_t>(place)]);
  }
  return y;
}

inline OnnxGiven transposed(const OnnxGiven& x, const Numbers& perm) {
  Numbers shape;
  for (const int64_t axis : perm) shape.push_back(x.shape[static_cast<size_t>(axis)]);
  return chosen(x, shape, [&](const Numbers& at) {
    Numbers from(at.size());
    for (size_t k = 0; k < at.size(); ++k) from[static_cast<size_t>(perm[k])] = at[k];
    return from;
  });
}

/// Returns an array in which index i of `axis` is index places[i] of x.
inline OnnxGiven along(const OnnxGiven& x, size_t axis, const Numbers& places) {
  Numbers shape = x.shape;
  shape[axis] = std::ssize(places);
  return chosen(x, shape, [&](Numbers at) {
    at[axis] = places[static_cast<size_t>(at[axis])];
    return at;
  });
}

/// An ONNX graph of opset 18 with the input x.
class OnnxNet {
 public:
  explicit OnnxNet(const Numbers& extents) {
    model_.set_ir_version(8);
    model_.add_opset_import()->set_version(18);
    graph_ = model_.mutable_graph();
    auto* input = graph_->add_input();
    input->set_name("x");
    auto* type = input->mutable_type()->mutable_tensor_type();
    type->set_elem_type(::onnx::TensorProto::FLOAT);
    for (const int64_t extent : extents)
      type->mutable_shape()->add_dim()->set_dim_value(extent);
    last_ = "x";
  }

  /// Adds integers as a constant; returns its name.
  std::string integers(const Numbers& values, const Numbers& shape) {
    auto& tensor = *graph_->add_initializer();
    tensor.set_name(fmt::format("c{}", names_++));
    tensor.set_data_type(::onnx::TensorProto::INT64);
    for (const int64_t each : shape) tensor.add_dims(each);
    for (const int64_t each : values) tensor.add_int64_data(each);
    return tensor.name();
  }
  std::string integers(const Numbers& values) { return integers(values, {std::ssize(values)}); }
  std::string floats(const std::vector<float>& values) {
    auto& tensor = *graph_->add_initializer();
    tensor.set_name(fmt::format("c{}", names_++));
    tensor.set_data_type(::onnx::TensorProto::FLOAT);
    tensor.add_dims(std::ssize(values));
    for (const float each : values) tensor.add_float_data(each);
    return tensor.name();
  }
  /// Adds a node that reads the last value and `others`.
  OnnxNet& add(const char* op, const std::vector<std::string>& others = {}) {
    auto& node = *graph_->add_node();
    node.set_op_type(op);
    node.set_name(std::string("the ") + op);
    node.add_input(last_);
    for (const std::string& each : others) node.add_input(each);
    last_ = fmt::format("v{}", names_++);
    node.add_output(last_);
    return *this;
  }
  OnnxNet& set(const char* name, int64_t value) {
    auto& attribute = named(name, ::onnx::AttributeProto::INT);
    attribute.set_i(value);
    return *this;
  }
  OnnxNet& set(const char* name, const Numbers& values) {
    auto& attribute = named(name, ::onnx::AttributeProto::INTS);
    for (const int64_t each : values) attribute.add_ints(each);
    return *this;
  }
  OnnxNet& set(const char* name, const char* value) {
    named(name, ::onnx::AttributeProto::STRING).set_s(value);
    return *this;
  }
  OnnxNet& reshape(const Numbers& shape) { return add("Reshape", {integers(shape)}); }

  SavedModel imported() {
    graph_->clear_output();
    graph_->add_output()->set_name(last_);
    return parse_onnx(model_.SerializeAsString(), "m.onnx");
  }
  /// Elements of the answer, joined to one axis after the batch.
  std::vector<float> answer(const OnnxGiven& x) {
    reshape({0, -1});
    const SavedModel model = imported();
    Parameters parameters(model.graph, 0);
    Tape tape(model.graph, parameters, {});
    const auto input = tape.input<float>("x");
    const bool image = x.shape.size() == 4;
    const OnnxGiven stored = image ? transposed(x, {0, 2, 3, 1}) : x;
    std::ranges::copy(stored.values, input.begin());
    tape.forward(mode::eval);
    return copied(tape.value<float>(model.graph.outputs()[0]));
  }
  std::string refusal() {
    return error_text<FormatError>([&] { (void)imported(); });
  }

 private:
  ::onnx::AttributeProto& named(const char* name, ::onnx::AttributeProto::AttributeType type) {
    auto& attribute = *graph_->mutable_node(graph_->node_size() - 1)->add_attribute();
    attribute.set_name(name);
    attribute.set_type(type);
    return attribute;
  }

  ::onnx::ModelProto model_;
  ::onnx::GraphProto* graph_ = nullptr;
  std::string last_;
  int names_ = 0;
};

template <class T>
int64_t number_of(const SavedModel& model) {
  return std::ranges::count_if(
      model.graph.nodes(), [](const Node& node) { return std::holds_alternative<T>(node.op); });
}

}  // namespace qtape::test::onnx_nets
