// What keeps the numbers of a graph from being integers: asked by conversion and by lint.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "qtape/integer/analysis.h"
#include "qtape/integer/code_table.h"

namespace qtape {

inline constexpr std::string_view never_observed = "never observed anything";

/// For channel `c` of the quantizer at `id`, which has states and by them scale 0:
/// `never_observed`, or what they hold instead: `no scale follows from its scale -0.05`.
std::string missing_scale(const Graph& graph, const Parameters& parameters, NodeId id,
                          int64_t c);

/// Whether the states of the quantizer at `id` hold that nothing but zeros was observed.
bool saw_zeros_alone(const Graph& graph, const Parameters& parameters, NodeId id);

/// Each gives a verdict without a reason where nothing is wrong.
///
/// Scale and zero point of a quantizer of activations.
Verdict check_scale(const Graph& graph, const Parameters& parameters, NodeId id);
/// What is added to accumulators, or why there is nothing.
Verdict check_bias(std::span<const float> values, const std::string& fault);
/// Quantized weights, or why there are none.
Verdict check_weights(std::span<const float> values, const std::string& fault);
/// A node that a program is to yield, in floats or in integers.
Verdict check_output(const IntegerForm& form, bool integer_outputs);

/// The table of a quantizer of a function of codes, see code_table.
CodeTable table_of(const Graph& graph, const Parameters& parameters,
                   const IntegerAnalysis& analysis, NodeId quantizer);

/// What is wrong with the numbers of a node, beside weights and biases that are no leaves.
Verdict check_numbers(const Graph& graph, const Parameters& parameters,
                      const IntegerAnalysis& analysis, NodeId id);

}  // namespace qtape
