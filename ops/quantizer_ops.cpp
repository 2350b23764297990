#include "qtape/ops/quantizer_ops.h"

namespace qtape {
bool is_quantizer(const Op& op) {
  return std::visit([]<class T>(const T&) { return Quantizer<T>; }, op);
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
