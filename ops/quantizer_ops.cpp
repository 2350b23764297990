#include "qtape/ops/quantizer_ops.h"

#include "qtape/ops/op_queries.h"

namespace qtape {
namespace {

template <class... X>
QuantizerPointer pointer_to(const Op& op, std::type_identity<std::variant<const X*...>>) {
  QuantizerPointer found;
  (void)((std::holds_alternative<X>(op) && (found = std::get_if<X>(&op), true)) || ...);
  return found;
}

}  // namespace

bool is_quantizer(const Op& op) { return traits_of(op).quantizer; }

QuantizerPointer quantizer_in(const Op& op) {
  if (!is_quantizer(op)) fail<GraphError>("{} is not a quantizer", name_of(op));
  return pointer_to(op, std::type_identity<QuantizerPointer>());
}

Granularity granularity_of(const Op& op) {
  return visit_quantizer(op, [](const auto& each) { return granularity_of(each); });
}

Grid grid_of(const Op& op) {
  return visit_quantizer(op, [](const auto& each) { return grid_of(each); });
}

std::vector<QuantizerOperand> operands_of(const Op& op) {
  return visit_quantizer(op, [](const auto& each) { return each.operands(); });
}

}  // namespace qtape
