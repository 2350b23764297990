// Interpreter of ONNX models that follows the specification of each operator: slow, and
// independent of the code that writes models. It supports the operators and types of exported
// programs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "qtape/onnx/arena_model.h"
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

/// Returns the product of extents.
int64_t onnx_elements(const std::vector<int64_t>& shape);

/// A model, and the values of its last run.
class OnnxInterpreter {
 public:
  /// Throws FormatError for bytes that are not an ONNX model, and for constants of unsupported
  /// types.
  explicit OnnxInterpreter(std::string_view bytes);

  /// Return the names of the graph's inputs and outputs, in order.
  std::vector<std::string> inputs() const;
  std::vector<std::string> outputs() const;

  /// Sets the value of input `name`. Throws FormatError if the number of elements does not
  /// match the shape.
  void set(const std::string& name, OnnxArray value);
  /// Computes all nodes. Throws FormatError, which names the node, for unsupported operators
  /// and operands.
  void run();
  /// Returns the value that was set or computed as `name`. Throws FormatError if there is none.
  const OnnxArray& value(const std::string& name) const;

 private:
  ArenaModel model_;
  std::map<std::string, OnnxArray> constants_;
  std::map<std::string, OnnxArray> values_;
};

}  // namespace qtape
