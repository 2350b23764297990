// PRelu: between two quantizers a lookup table, with a row for each channel if the slopes
// differ.
#pragma once

#include "qtape/core/code_types.h"
#include "qtape/engine/quantizers.h"
#include "qtape/integer/rules/rule.h"

namespace qtape {

template <>
struct IntegerRule<PRelu> {
  /// Entries of a table, which limits the channels of 16-bit codes.
  static constexpr int64_t max_entries = int64_t{1} << 22;

  static Verdict classify(const PRelu&, const Operands& operands) {
    const Graph& graph = operands.graph();
    if (!operands.constant(1) || !graph[operands.id(1)].operands.empty()) {
      return refusal(fmt::format("{} computes slopes, which must be a parameter",
                                 graph.describe(operands.id(1))),
                     "make the slopes a parameter");
    }
    const NodeId codes = operands.form(0).codes;
    if (codes.index < 0) return operands.refuse(0);
    const Verdict pending = {.is = Verdict::Is::Pending, .codes = codes};
    const int64_t rows = operands.shape(1).elements();
    if (rows == 1) return pending;
    if (graph[codes].type.shape != operands.shape(0)) {
      return operands.refuse_unquantized(0);
    }
    const Grid grid = grid_of(graph, operands.form_of(codes).quantizer);
    const int64_t entries = int64_t{1} << (8 * size_of(code_dtype(grid.limits)));
    if (rows > max_entries / entries) {
      return refusal(
          fmt::format("its tables for {} channels of {} codes are too large", rows, entries),
          "quantize its operand to 8 bits, or share one slope");
    }
    return pending;
  }
};

}  // namespace qtape
