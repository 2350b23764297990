// Checks of the numbers of a graph that conversion and lint share.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "qtape/integer/rules/analysis.h"
#include "qtape/integer/rules/code_table.h"
#include "qtape/integer/rules/lowering.h"

namespace qtape {

inline constexpr std::string_view never_observed = "has never observed any values";

/// Explains why channel `c` of the quantizer at `id`, whose states give scale 0, has no scale:
/// `never_observed`, or the contents of the states: `no scale can be computed from its scale
/// -0.05`.
std::string missing_scale(const Graph& graph, const Parameters& parameters, NodeId id,
                          int64_t c);

/// True if the states of the quantizer at `id` show that only zeros were observed.
bool saw_zeros_alone(const Graph& graph, const Parameters& parameters, NodeId id);

/// The following checks return a verdict without a reason if nothing is wrong.
///
/// Checks the scale and zero point of a quantizer of activations.
Verdict check_scale(const Graph& graph, const Parameters& parameters, NodeId id);
/// Checks the values that are added to accumulators; `fault` is the reason if there are none.
Verdict check_bias(std::span<const float> values, const std::string& fault);
/// Checks quantized weights; `fault` is the reason if there are none.
Verdict check_weights(std::span<const float> values, const std::string& fault);
/// Checks that a node neither sums nor selects across samples: its results would depend on the
/// batch size. `larger` is `with_larger_batch(graph)`.
Verdict check_samples(const Graph& graph, const Graph& larger, NodeId id);
/// Checks gamma and beta of a norm.
Verdict check_leaves(const Graph& graph, const Parameters& parameters, const LoweredNorm& norm);
/// Checks a node that is to be an output of a program, in floats or in integers.
Verdict check_output(const IntegerForm& form, bool integer_outputs);

/// True for a Pad with a negative border that only maxima read, directly or through quantizers:
/// the nearest code changes nothing except for windows of the border alone.
bool is_below_maxima(const Graph& graph, NodeId id);

/// True for a border of a magnitude above 256: differences between it and f32 values around 1
/// are rounded.
bool has_far_border(const Pad& pad);

/// True if a value can be reshaped to `shape`: scales of channels belong to the last axis.
bool can_show(const IntegerValue& value, const Shape& shape);

/// Returns `graph` with one more sample in its batch; as it is, if its batch is fixed.
Graph with_larger_batch(const Graph& graph);

/// Returns the lookup table of a quantizer that follows a function of codes, see code_table.
CodeTable table_of(const Graph& graph, const Parameters& parameters,
                   const IntegerAnalysis& analysis, NodeId quantizer);

/// Checks the numbers of a node, except weights and biases that are not leaves.
Verdict check_numbers(const Graph& graph, const Parameters& parameters,
                      const IntegerAnalysis& analysis, NodeId id);

}  // namespace qtape
