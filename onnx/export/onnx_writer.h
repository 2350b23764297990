// An ONNX graph under construction: nodes, constants and their names.
#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/core/byte_order.h"
#include "qtape/core/types.h"
#include "qtape/onnx/arena_model.h"
#include "qtape/onnx/attributes.h"

namespace qtape {

/// Returns the ONNX element type of a dtype.
int32_t onnx_type(DType dtype);

/// The extent of a type that grows with the batch.
struct BatchExtent {
  int axis = -1;
  std::string name = {};
};

class OnnxWriter {
 public:
  explicit OnnxWriter(int64_t opset);

  /// Returns an unused name that begins with `wanted`.
  std::string unique(std::string_view wanted);
  /// Adds a constant and returns its name.
  template <class T>
  std::string constant(std::string_view name, DType dtype, const Shape& shape,
                       std::span<const T> values) {
    onnx::TensorProto& tensor = initializer(name, dtype, shape);
    const LittleEndian data(std::as_bytes(values), size_of(dtype));
    tensor.set_raw_data(data.bytes().data(), data.bytes().size());
    return tensor.name();
  }
  template <class T>
  std::string scalar(std::string_view name, DType dtype, T value) {
    return constant<T>(name, dtype, Shape{}, std::span(&value, 1));
  }
  /// Adds a constant of 4-bit codes, two per byte, and returns its name.
  std::string constant_of_4_bits(std::string_view name, const Shape& shape,
                                 std::span<const int8_t> codes);
  /// Adds a constant of integers, s64 [n], and returns its name.
  std::string numbers(std::string_view name, const std::vector<int64_t>& values);

  /// Adds a node with one output and a unique output name that begins with `output`.
  onnx::NodeProto& node(std::string_view op, const std::vector<std::string>& inputs,
                        std::string_view output);
  /// Adds a node and returns the name of its output.
  std::string apply(std::string_view op, const std::vector<std::string>& inputs,
                    std::string_view output) {
    return node(op, inputs, output).output(0);
  }

  /// Add inputs and outputs; if `batch`, the first extent is symbolic.
  void input(const std::string& name, const TensorType& type, const BatchExtent& batch);
  void output(const std::string& name, const TensorType& type, const BatchExtent& batch);

  /// States that the model uses operators of a domain other than ONNX's.
  void use_domain(std::string_view domain, int64_t version);
  /// Adds an entry to the model's metadata.
  void metadata(const std::string& key, const std::string& value);

  /// Returns the file's bytes, with the types of all values. Throws GraphError above 2 GiB, the
  /// limit of ONNX files.
  std::string bytes();

 private:
  onnx::TensorProto& initializer(std::string_view name, DType dtype, const Shape& shape);

  ArenaModel model_;
  std::map<std::string, int, std::less<>> names_;  // and the number of the next like it
};

}  // namespace qtape
