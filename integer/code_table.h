// Tables of functions of one code.
#pragma once

#include <optional>
#include <vector>

#include "qtape/integer/analysis.h"

namespace qtape {

/// From codes to the codes of a quantizer, through the ops between them.
struct CodeTable {
  NodeId codes;   ///< the node whose codes are mapped
  Tensor values;  ///< a code for each code that their dtype holds
  /// A code within the range of x whose value has no code: the function gives NaN.
  std::optional<int32_t> undefined;
};

/// The table of what the quantizer with `grid` and `q` makes of node `x`, which is a function
/// of codes of `input`, of dtype code_dtype(input.limits) with scale and zero point `input_q`.
CodeTable code_table(const Graph& graph, const IntegerAnalysis& analysis, NodeId x,
                     const Grid& input, const QParams<float>& input_q, const Grid& grid,
                     const QParams<float>& q);
/// The node whose codes `x` is a function of.
NodeId mapped_codes(const Graph& graph, const IntegerAnalysis& analysis, NodeId x);

}  // namespace qtape
