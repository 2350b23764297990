#include "qtape/onnx/interpreter/interpreter_ops.h"

#include <algorithm>

#include "qtape/onnx/interpreter/call.h"

namespace qtape {

OnnxArray compute_onnx(const OnnxNode& node, const OnnxOperands& operands) {
  using namespace interpreter;
  for (const auto operators : {pointwise_operators(), product_operators(), window_operators(),
                               structure_operators()}) {
    const auto found = std::ranges::find(operators, node.type(), &Operator::name);
    if (found != operators.end()) return found->compute({node, operands});
  }
  fail<FormatError>("the operator is not supported");
}

}  // namespace qtape
