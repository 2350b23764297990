// Ops of indices: ArgMax, whose result they are, Embedding, which looks up rows by them, and
// Cast, which outputs them as floats.
#pragma once

#include "qtape/integer/rules/rule.h"

namespace qtape {

/// Returns the ArgMax or Input whose indices node `id` holds or moves.
inline NodeId origin_of_indices(const Graph& graph, NodeId id) {
  while (!graph[id].operands.empty() && !std::holds_alternative<ArgMax>(graph[id].op)) {
    id = graph[id].operands[0];
  }
  return id;
}

/// Codes are compared as they are. Accumulators are compared by their values, which need no
/// grid, if they are in the shape in which they were computed.
template <>
struct IntegerRule<ArgMax> {
  static Verdict classify(const ArgMax&, const Operands& operands) {
    const IntegerForm& x = operands.form(0);
    const bool sums = x.kind == IntegerKind::Accumulators && !x.is_limited() &&
                      operands.graph()[x.source].type.shape == operands.shape(0);
    if (!x.is_plain_codes() && !sums) return operands.refuse(0);
    return {.is = Verdict::Is::Indices};
  }
  static IntegerOp emit(const ArgMax& op, const Numbers&) { return integer::ArgMax{op}; }
};

/// Rows of codes, on the grid of the table.
template <>
struct IntegerRule<Embedding> {
  static constexpr bool keeps_codes = true;
  static constexpr size_t indices = 1;

  static Verdict classify(const Embedding&, const Operands& operands) {
    const Graph& graph = operands.graph();
    if (!operands.constant(0)) {
      return refusal("its table depends on an input, but integers need a constant table",
                     "use a Parameter or a Constant");
    }
    if (!operands.has_codes(0)) return operands.refuse_codes(0);
    const IntegerForm& x = operands.form(1);
    if (x.kind != IntegerKind::Indices) {
      return refusal(
          fmt::format("{} is neither an input nor an ArgMax", graph.describe(operands.id(1))),
          "use an input of indices");
    }
    const NodeId origin = origin_of_indices(graph, x.source);
    const auto* index = std::get_if<ArgMax>(&graph[origin].op);
    if (index == nullptr) return {.is = Verdict::Is::Codes};
    const Shape& searched = graph[graph[origin].operands[0]].type.shape;
    const int64_t extent = searched[index->axis];
    const int64_t rows = operands.shape(0)[0];
    if (extent <= rows) return {.is = Verdict::Is::Codes};
    return refusal(fmt::format("{} is up to {}, the table has {} rows", graph.describe(origin),
                               extent - 1, rows),
                   "use a table with a row for each index");
  }
  static IntegerOp emit(const Embedding&, const Numbers&) { return integer::Embedding{}; }
};

template <>
struct IntegerRule<Cast> {
  static Verdict classify(const Cast& op, const Operands& operands) {
    const IntegerForm& x = operands.form(0);
    const Graph& graph = operands.graph();
    const bool found =
        x.kind == IntegerKind::Indices &&
        std::holds_alternative<ArgMax>(graph[origin_of_indices(graph, x.source)].op);
    if (found && op.dtype == DType::F32) return {.is = Verdict::Is::Operand};
    return refusal("has integers only as the f32 of an ArgMax",
                   "feed the model f32, or end the model before it");
  }
};

}  // namespace qtape
