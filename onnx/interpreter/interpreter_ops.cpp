#include "qtape/onnx/interpreter/interpreter_ops.h"

#include <algorithm>

#include "qtape/core/error.h"
#include "qtape/onnx/interpreter/call.h"

namespace qtape {
namespace {

/// Returns the operator, or null if it is not supported.
const interpreter::Operator* find_operator(std::string_view name) {
  using namespace interpreter;
  for (const auto operators : {pointwise_operators(), product_operators(), window_operators(),
                               structure_operators()}) {
    const auto found = std::ranges::find(operators, name, &Operator::name);
    if (found != operators.end()) return &*found;
  }
  return nullptr;
}

}  // namespace

OnnxArray compute_onnx(const OnnxNode& node, const OnnxOperands& operands) {
  const interpreter::Operator* found = find_operator(node.type());
  require<FormatError>(found != nullptr, "the operator is not supported");
  return found->compute({node, operands});
}

OnnxType onnx_type(const OnnxTypes& operands) {
  const interpreter::Operator* found = find_operator(operands.node.type());
  check(found != nullptr,
        "the type of the result of {} is not known: the interpreter has no such operator",
        operands.node.type());
  return found->type(operands);
}

}  // namespace qtape
