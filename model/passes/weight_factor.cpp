#include "qtape/model/passes/weight_factor.h"

#include <cmath>
#include <type_traits>

namespace qtape {

void WeightFactor::update(const Parameters& parameters) {
  if (values.empty()) return;
  const auto g = parameters.at(gamma).values<float>();
  const auto v = parameters.at(variance).values<float>();
  for (size_t c = 0; c < values.size(); ++c) {
    values[c] = static_cast<float>(double{g[c]} / std::sqrt(double{v[c]} + eps));
  }
}

std::optional<QuantizedWeight> quantized_weight(const Graph& graph, NodeId quantizer) {
  const auto holds = [&]<class T>(NodeId id, std::type_identity<T>) {
    return std::holds_alternative<T>(graph[id].op) && graph[id].type.dtype == DType::F32;
  };
  constexpr std::type_identity<Parameter> parameter;
  const NodeId operand = graph[quantizer].operands[0];
  if (holds(operand, parameter)) return QuantizedWeight{.parameter = operand, .factor = {}};
  // A FoldedNorm multiplies by the factors of channels, reshaped to [1, ..., c, ..., 1].
  const Node& product = graph[operand];
  if (!std::holds_alternative<Mul>(product.op) || !holds(product.operands[0], parameter)) {
    return std::nullopt;
  }
  const Node& view = graph[product.operands[1]];
  if (!std::holds_alternative<Reshape>(view.op)) return std::nullopt;
  const Node& factor = graph[view.operands[0]];
  const auto* op = std::get_if<FoldFactor>(&factor.op);
  if (op == nullptr || !holds(factor.operands[0], parameter) ||
      !holds(factor.operands[1], std::type_identity<State>{})) {
    return std::nullopt;
  }
  const auto channels = static_cast<size_t>(factor.type.elements());
  const Shape& shape = product.type.shape;
  int axis = shape.rank() - 1;
  int64_t block = 1;
  for (int i = view.type.shape.rank() - 1; i >= 0 && view.type.shape[i] == 1; --i, --axis) {
    if (axis >= 0) block *= shape[axis];
  }
  return QuantizedWeight{.parameter = product.operands[0],
                         .factor = {.gamma = graph[factor.operands[0]].label,
                                    .variance = graph[factor.operands[1]].label,
                                    .eps = op->eps,
                                    .block = block,
                                    .values = std::vector<float>(channels)}};
}

}  // namespace qtape
