// Everything that keeps an ONNX file from being read, gathered as one list.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/onnx/onnx_node.h"

namespace qtape {

/// Thrown where a node reads a value of another node that was refused.
struct OnnxUnknown {};

/// Thrown by a node whose reasons are noted already.
struct OnnxRefused {};

class OnnxProblems {
 public:
  /// Of tensors, inputs and outputs; `place` is empty where the reason names it.
  void add(const std::string& place, const std::string& reason);
  /// Of the node at `index` of the graph.
  void add(int64_t index, const OnnxNode& node, const std::string& reason);
  bool empty() const { return problems_.empty(); }
  /// Throws FormatError with all of them, in the order of the file, unless there are none.
  void settle() const;

 private:
  struct Problem {
    int64_t index;  ///< of the node; -1 of others
    std::string place;
    std::string type;                ///< of the operator
    std::vector<std::string> names;  ///< of nodes with one type and reason
    std::string reason;

    std::string text() const;
  };

  std::vector<Problem> problems_;
};

/// Whether the output has the shape of input 0, also of operators that are not read.
bool onnx_keeps_shape(std::string_view type);

/// A way around an operator that is not read.
std::string_view onnx_remedy(std::string_view type);

}  // namespace qtape
