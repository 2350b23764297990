// Lookup tables of functions of one code.
#pragma once

#include <optional>
#include <vector>

#include "qtape/integer/rules/analysis.h"

namespace qtape {

/// Maps the codes of a node to the codes of a quantizer, through the ops between them.
struct CodeTable {
  NodeId codes;   ///< the node whose codes are mapped
  Tensor values;  ///< one output code for each code that the input dtype can hold
  /// A code within the range of x for which the function returns NaN, which has no code.
  std::optional<int32_t> undefined;
};

/// Builds the table from codes of `input` to codes of `grid` and `q`, where node `x` is a
/// function of the codes of `input`. Those have dtype code_dtype(input.limits), and `input_q`
/// holds their scale and zero point.
CodeTable code_table(const Graph& graph, const IntegerAnalysis& analysis, NodeId x,
                     const Grid& input, const QParams<float>& input_q, const Grid& grid,
                     const QParams<float>& q);
/// Returns the node that provides the codes of which `x` is a function.
NodeId mapped_codes(const Graph& graph, const IntegerAnalysis& analysis, NodeId x);

}  // namespace qtape
