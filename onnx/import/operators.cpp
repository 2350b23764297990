#include "qtape/onnx/import/operators.h"

#include <fmt/format.h>

#include <algorithm>

namespace qtape {

void OnnxOperators::run() const {
  // Attributes without effect on values.
  for (const char* ignored : {"storage_order", "seed", "saturate"}) (void)node.has(ignored);
  require<FormatError>(node.domain().empty(), "operators of the domain '{}' are not supported",
                       printable(node.domain()));
  for (const auto family : {product_conversions(), window_conversions(), element_conversions(),
                            structure_conversions(), constant_conversions()}) {
    const auto found = std::ranges::find(family, node.type(), &OnnxOperator::type);
    if (found != family.end()) return found->convert(*this);
  }
  fail<FormatError>("the operator is not supported: {}", onnx_remedy(node.type()));
}

void OnnxOperators::expect_weights(int k, int rank, std::string_view kind) {
  const std::string& name = node.input(k);
  if (to.is_unknown(name)) return;
  const OnnxConstant* found = to.find_constant(name);
  expect(found != nullptr, "input {}, '{}', must be a constant", k, printable(name));
  if (found == nullptr) return;
  expect(found->is_float && (rank == 0 || found->shape.rank() == rank), "input {} must be {}",
         k, kind);
}

void OnnxOperators::same() {
  if (node.type() == "Cast") {
    const int64_t type = node.integer("to", 0);
    const bool float_to = type == onnx::TensorProto::FLOAT || type == onnx::TensorProto::DOUBLE;
    const bool integer_to =
        type == onnx::TensorProto::INT64 || type == onnx::TensorProto::INT32;
    const bool known =
        constant_input() ? to.constant(node, 0).is_float ? float_to : integer_to : float_to;
    expect(known, "casts to type {} are not supported", type);
  }
  if (constant_input()) return to.add_constant(node.output(0), to.constant(node, 0));
  give(x());
}

}  // namespace qtape
