// Lookup tables of functions of one code.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "qtape/integer/rules/analysis.h"

namespace qtape {

/// Maps the codes of a node to the codes of a quantizer, through the ops between them.
struct CodeTable {
  /// One output code for each code that the input dtype can hold; with constants that differ by
  /// channel, a row of these for each index of the last axis.
  Tensor values;
  /// A code within the range of x for which the function returns NaN, which has no code.
  std::optional<int32_t> undefined;
  bool undefined_from_zero = false;  ///< true if it is also NaN for a code of a value >= 0
};

/// Returns the numbers of a node that depends on no input: one, or one for each channel.
using ConstantNumbers = std::function<std::vector<float>(NodeId)>;

/// Builds the table from codes of `input` to codes of `grid` and `q`, where node `x` is a
/// function of the codes of `input`. Those have dtype code_dtype(input.limits), and `input_q`
/// holds their scale and zero point.
CodeTable code_table(const Graph& graph, const IntegerAnalysis& analysis, NodeId x,
                     const Grid& input, const QParams<float>& input_q, const Grid& grid,
                     const QParams<float>& q, const ConstantNumbers& numbers);

}  // namespace qtape
