// Collects everything in an ONNX file that is not supported.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/core/error.h"
#include "qtape/onnx/onnx_node.h"

namespace qtape {

/// Thrown for a node that would join, split or reorder samples. In a file with a batch of 1
/// such nodes compute the same as one that keeps the batch.
struct OnnxMixedSamples : FormatError {
  using FormatError::FormatError;
};

/// Thrown if a node reads a value of a refused node.
struct OnnxUnknown {};

/// Thrown by a node whose reasons are recorded already.
struct OnnxRefused {};

class OnnxProblems {
 public:
  /// Adds a problem of a tensor, input or output; `place` is empty if the reason names it.
  void add(const std::string& place, const std::string& reason);
  /// Adds a problem of a tensor; tensors with the same reason share one line.
  void add_tensor(const std::string& name, const std::string& reason);
  /// Adds a problem of the node at `index` of the graph.
  void add(int64_t index, const OnnxNode& node, const std::string& reason);
  bool empty() const { return problems_.empty(); }
  /// Throws FormatError with all problems, in file order, unless there are none.
  void settle() const;

 private:
  struct Problem {
    int64_t index;  ///< of the node; -1 if none
    std::string place;
    std::string type;                ///< of the operator; empty for a tensor
    std::vector<std::string> names;  ///< of nodes, or of tensors, with the same type and reason
    std::string reason;

    std::string text() const;
  };

  std::vector<Problem> problems_;
};

/// Returns a workaround for an unsupported operator.
std::string_view onnx_remedy(std::string_view type);

}  // namespace qtape
