#include "qtape/bench/work.h"

namespace qtape::bench {
namespace {

/// Returns the multiplications and additions of one product, 0 for other ops.
double operations(const Graph& graph, const Node& node) {
  const auto shape = [&](size_t i) -> const Shape& {
    return graph[node.operands[i]].type.shape;
  };
  const auto outputs = static_cast<double>(node.type.elements());
  if (const auto* product = std::get_if<MatMul>(&node.op)) {
    return 2 * outputs * static_cast<double>(shape(0)[product->transpose_a ? -2 : -1]);
  }
  if (std::holds_alternative<Conv2d>(node.op) || std::holds_alternative<Conv1d>(node.op)) {
    return 2 * outputs * static_cast<double>(shape(1).elements() / shape(1)[0]);
  }
  return 0;
}

}  // namespace

Work work_of(const Graph& graph, const Plan& plan) {
  Work work;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (std::holds_alternative<Parameter>(node.op)) {
      work.optimizer += 7.0 * static_cast<double>(node.type.bytes());
    }
    const double one = operations(graph, node);
    work.forward += one;
    for (size_t k = 0; k < plan.nodes[i].wanted.size(); ++k) {
      if (plan.nodes[i].wanted[k]) work.backward += one;
    }
  }
  return work;
}

double roofline(const Work& work, Arithmetics arithmetics, const Limits& limits) {
  const bool codes = arithmetics != Arithmetics::Float && limits.int8 > 0;
  const double forward = codes ? limits.int8 : limits.f32;
  const double backward = arithmetics == Arithmetics::Bf16 ? limits.bf16 : limits.f32;
  return 1e6 *
         (work.forward / forward + work.backward / backward + work.optimizer / limits.copy);
}

}  // namespace qtape::bench
