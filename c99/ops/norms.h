// The norm and the softmax of codes in C99.
#pragma once

#include <fmt/format.h>

#include "qtape/c99/c_source.h"
#include "qtape/integer/ops/integer_ops.h"

namespace qtape {

inline void write(const integer::Normalize& op, CNode& node) {
  const IntegerValue& x = node.in(0);
  const Shape& shape = x.type.shape;
  if (shape.elements() == 0) return;
  const auto wide = op.signs.values<int32_t>();
  const std::vector<int8_t> signs(wide.begin(), wide.end());
  const std::string code(c_type(x.type.dtype));
  const int64_t width = shape[-1] / op.groups;
  const int64_t positions = op.terms(shape) / width;
  const CStore store = node.store("int32_t");
  const std::string normalize = node.source.kernel(
      "normalize", fmt::format("{}_{}", code, store.type),
      {{"X", code}, {"Y", store.type}, {"TO", store.to}, {"STORE", store.function}});
  node.call(
      normalize, node.operands[0], node.result, shape.elements() / (positions * shape[-1]),
      positions, op.groups, width, x.zero_point, int64_t{op.centered}, op.shift, op.epsilon,
      op.least, node.source.array<int8_t>(node.name, "signs", signs),
      node.source.array<int32_t>(node.name, "bias", op.bias.values<int32_t>()), store.argument);
}

inline void write(const integer::Softmax& op, CNode& node) {
  const Shape& shape = node.out().type.shape;
  if (shape.elements() == 0) return;
  const integer::Exponentials exps = op.exponentials(node.in(0).scales[0]);
  const std::string product = node.source.kernel("high_product", "");
  node.call(node.source.kernel("softmax", "", {{"PRODUCT", product}}), node.operands[0],
            node.result, shape.elements() / shape[-1], shape[-1],
            node.source.array<int32_t>(node.name, "exponentials", exps));
}

}  // namespace qtape
