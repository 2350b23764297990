// An ONNX graph while it is written: nodes, constants and their names.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstring>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/core/types.h"

namespace qtape {

/// The element type of ONNX for a dtype of ours.
int32_t onnx_type(DType dtype);

class OnnxWriter {
 public:
  explicit OnnxWriter(int64_t opset);

  /// A name that begins with `wanted` and that nothing else has.
  std::string unique(std::string_view wanted);
  /// A constant.
  template <class T>
  std::string constant(std::string_view name, DType dtype, const Shape& shape,
                       std::span<const T> values) {
    onnx::TensorProto& tensor = initializer(name, dtype, shape);
    tensor.set_raw_data(values.data(), values.size_bytes());
    return tensor.name();
  }
  template <class T>
  std::string scalar(std::string_view name, DType dtype, T value) {
    return constant<T>(name, dtype, Shape{}, std::span(&value, 1));
  }
  /// The same of codes of 4 bits, two in a byte.
  std::string constant_of_4_bits(std::string_view name, const Shape& shape,
                                 std::span<const int8_t> codes);
  /// Numbers of an axis: s64 [n].
  std::string numbers(std::string_view name, const std::vector<int64_t>& values);

  /// A node with one output, which it names.
  onnx::NodeProto& node(std::string_view op, const std::vector<std::string>& inputs,
                        std::string_view output);
  /// The same, of which only the output's name is of interest.
  std::string apply(std::string_view op, const std::vector<std::string>& inputs,
                    std::string_view output) {
    return node(op, inputs, output).output(0);
  }

  /// Inputs and outputs; with `batch` the first extent has a name instead of a number.
  void input(const std::string& name, const TensorType& type, bool batch);
  void output(const std::string& name, const TensorType& type, bool batch);

  /// An entry of the model's metadata.
  void metadata(const std::string& key, const std::string& value);

  /// The file's bytes, with the types of all values. Throws GraphError for more than 2 GiB,
  /// which no ONNX file has.
  std::string bytes();

 private:
  onnx::TensorProto& initializer(std::string_view name, DType dtype, const Shape& shape);

  onnx::ModelProto model_;
  std::set<std::string, std::less<>> names_;
};

void set_attribute(onnx::NodeProto& node, std::string_view name, int64_t value);
void set_attribute(onnx::NodeProto& node, std::string_view name,
                   const std::vector<int64_t>& values);

}  // namespace qtape
