// ONNX models computed as the specification of the operators says, one after another: slowly,
// and without any code of what writes them. It has the operators and types of exported
// programs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "qtape/onnx/tensor_proto.h"

namespace qtape {

/// A tensor of a running model.
struct OnnxArray {
  std::vector<int64_t> shape = {};
  std::variant<std::vector<float>, std::vector<int8_t>, std::vector<uint8_t>,
               std::vector<int16_t>, std::vector<uint16_t>, std::vector<int32_t>,
               std::vector<int64_t>>
      data = {};

  int64_t elements() const;
};

/// The product of extents.
int64_t onnx_elements(const std::vector<int64_t>& shape);

/// A model, and the values of its last run.
class OnnxInterpreter {
 public:
  /// Throws FormatError for bytes that are no ONNX model, and for constants of other types.
  explicit OnnxInterpreter(std::string_view bytes);

  /// Names of the graph's inputs and outputs, in its order.
  std::vector<std::string> inputs() const;
  std::vector<std::string> outputs() const;

  /// The value of the input `name`. Throws FormatError for other elements than its shape has.
  void set(const std::string& name, OnnxArray value);
  /// Computes all nodes. Throws FormatError, which names the node, for operators that it does
  /// not know and for operands that the operator does not take.
  void run();
  /// What was set or computed as `name`. Throws FormatError where there is none.
  const OnnxArray& value(const std::string& name) const;

 private:
  onnx::ModelProto model_;
  std::map<std::string, OnnxArray> constants_;
  std::map<std::string, OnnxArray> values_;
};

}  // namespace qtape
