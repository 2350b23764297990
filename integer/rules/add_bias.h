// AddBias: a bias added to the accumulators of a product.
#pragma once

#include "qtape/integer/rules/rule.h"

namespace qtape {

template <>
struct IntegerRule<AddBias> {
  static constexpr bool adds_bias = true;

  static Verdict classify(const AddBias&, const Operands& operands) {
    constexpr const char* remedy = "add a Parameter directly after the product";
    const IntegerForm& x = operands.form(0);
    const Graph& graph = operands.graph();
    const bool bare = x.kind == IntegerKind::Accumulators && !x.is_limited() &&
                      x.source == x.product && x.product.index >= 0;
    if (!bare) {
      return refusal("in integers, a bias must follow a product of quantized operands", remedy);
    }
    const NodeId b = operands.id(1);
    const bool rounded = std::holds_alternative<FakeQuantizeBias>(graph[b].op);
    const NodeId added = rounded ? graph[b].operands[0] : b;
    if (!operands.is_constant(added)) {
      return refusal(fmt::format("the bias {} depends on an input", graph.describe(added)),
                     remedy);
    }
    if (rounded && !rounds_for(operands, b, x.product)) {
      return refusal(
          fmt::format("{} rounds to the grid of quantizers other than those of the product",
                      graph.describe(b)),
          "give it the quantizers of the product's operands");
    }
    if (graph[x.product].type.shape != operands.result().shape) {
      return refusal("the bias must be added in the shape of the product",
                     "add it before the shape changes");
    }
    return {.is = Verdict::Is::Accumulators};
  }

 private:
  /// True if the bias is rounded to the scales of the operands of `product`.
  static bool rounds_for(const Operands& operands, NodeId bias, NodeId product) {
    const Graph& graph = operands.graph();
    const std::vector<NodeId>& factors = graph[product].operands;
    return graph[bias].operands[1] == operands.form_of(factors[0]).quantizer &&
           graph[bias].operands[2] == operands.form_of(factors[1]).quantizer;
  }
};

}  // namespace qtape
