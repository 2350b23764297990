#include "qtape/deploy/checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "qtape/deploy/weights.h"
#include "qtape/engine/quantizers.h"
#include "qtape/integer/rules/rule_table.h"
#include "qtape/integer/rules/signs.h"
#include "qtape/kernels/quantize/requantize.h"
#include "qtape/kernels/quantize/settle_kernels.h"
#include "qtape/ops/op_queries.h"

namespace qtape {

using namespace kernels;
namespace {

// Exceeds the distance of any code from its zero point, so that values stay finite.
constexpr double max_distance = 0x1p17;

/// Formats the state of channel `c`: one number, or both ends of a range; empty if all are 0.
std::string state_text(const ParameterEntry& state, int64_t channels, int64_t c) {
  return dispatch_compute(state.type.dtype, [&]<class T>() -> std::string {
    std::vector<T> numbers;
    const auto values = state.values<T>();
    for (auto i = static_cast<size_t>(c); i < values.size(); i += static_cast<size_t>(channels))
      numbers.push_back(values[i]);
    const bool zero = std::ranges::all_of(numbers, [](T v) { return v == 0; });
    return zero ? "" : fmt::format("{}", fmt::join(numbers, " to "));
  });
}

}  // namespace

std::string missing_scale(const Graph& graph, const Parameters& parameters, NodeId id,
                          int64_t c) {
  const Node& node = graph[id];
  const std::vector<Slot> slots = slots_of(node.op);
  const int64_t channels = channel_map(graph, id).channels;
  std::string text;
  for (size_t k = 1; k < node.operands.size(); ++k) {
    const ParameterEntry& state = parameters.at(graph[node.operands[k]].label);
    const std::string held = state_text(state, channels, c);
    // The first state is the scale, or the value from which the scale is computed.
    if (k == 1 && held.empty()) return std::string(never_observed);
    text +=
        fmt::format("{}{} {}", k == 1 ? "" : " and ", slots[k].name, held.empty() ? "0" : held);
  }
  return fmt::format("no scale can be computed from its {}", text);
}

bool saw_zeros_alone(const Graph& graph, const Parameters& parameters, NodeId id) {
  const Node& node = graph[id];
  const auto* quantizer = std::get_if<FakeQuantize>(&node.op);
  const bool given =
      quantizer != nullptr && std::holds_alternative<Fixed>(quantizer->scale_mode);
  if (given || node.operands.size() < 2 || !is_persistent(graph[node.operands[1]].op))
    return false;
  const ParameterEntry& state = parameters.at(graph[node.operands[1]].label);
  return dispatch_compute(state.type.dtype, [&]<class T>() {
    const auto values = state.values<T>();
    return std::ranges::find(values, kernels::zeros_mark<T>) != values.end();
  });
}

Verdict check_scale(const Graph& graph, const Parameters& parameters, NodeId id) {
  const auto found = qparams(graph, parameters, id);
  if (found.empty()) {
    return refusal("takes its scale from each batch", "use EMA or Fixed, and calibrate");
  }
  const double scale = found[0].scale;
  if (scale == 0) {
    return refusal(missing_scale(graph, parameters, id, 0), "train or calibrate first");
  }
  if (!are_scales(scale, 1) || !std::isfinite(static_cast<float>(scale * max_distance))) {
    return refusal(
        fmt::format("scale must be a normal f32 above 0 and below 2^111, got {}", scale),
        "calibrate it again");
  }
  const Fault fault = zero_point_fault(found[0].zero_point, grid_of(graph, id).limits, 0);
  if (fault.text == nullptr) return {};
  return refusal(to_string(fault), "set it with set_qparams or calibrate");
}

Verdict check_bias(std::span<const float> values, const std::string& fault) {
  if (!fault.empty()) return refusal(fault, "train or calibrate first");
  const auto nan = std::ranges::find_if(values, [](float v) { return std::isnan(v); });
  if (nan == values.end()) return {};
  return refusal(fmt::format("bias {} is NaN", nan - values.begin()),
                 "retrain from a state before it became NaN");
}

Verdict check_weights(std::span<const float> values, const std::string& fault) {
  if (!fault.empty()) return refusal(fault, "train or calibrate first");
  const auto wrong = std::ranges::find_if_not(values, [](float v) { return std::isfinite(v); });
  if (wrong == values.end()) return {};
  return refusal(fmt::format("weight {} is {}", wrong - values.begin(),
                             std::isnan(*wrong) ? "NaN" : "infinite"),
                 "retrain from a state in which they were finite");
}

Verdict check_output(const IntegerForm& form, bool integer_outputs) {
  if (form.kind == IntegerKind::Pending) {
    return refusal("is an output but has no integers of its own", "quantize its output");
  }
  if (!form.is_integer() && form.kind != IntegerKind::Indices) {
    return refusal("has no integers that could be an output",
                   "use a quantized output, or the accumulators of a product");
  }
  if (integer_outputs && form.is_limited()) {
    return refusal("is limited but has no grid", "quantize its output");
  }
  return {};
}

CodeTable table_of(const Graph& graph, const Parameters& parameters,
                   const IntegerAnalysis& analysis, NodeId quantizer) {
  const auto settled = [&](NodeId id) -> QParams<float> {
    const QParams<double> q = qparams(graph, parameters, id)[0];
    return {static_cast<float>(q.scale), static_cast<float>(q.zero_point)};
  };
  const NodeId x = graph[quantizer].operands[0];
  const NodeId input = analysis[analysis[x].codes].quantizer;
  return code_table(graph, analysis, x, grid_of(graph, input), settled(input),
                    grid_of(graph, quantizer), settled(quantizer),
                    [&](NodeId id) { return leaf_values(graph, parameters, id); });
}

namespace {

/// Checks the function of codes that precedes a quantizer, if there is one.
Verdict check_table(const Graph& graph, const Parameters& parameters,
                    const IntegerAnalysis& analysis, NodeId id) {
  const IntegerForm& x = analysis[graph[id].operands[0]];
  if (x.kind != IntegerKind::Pending || x.codes.index < 0) return {};
  const NodeId input = analysis[x.codes].quantizer;
  if (!check_scale(graph, parameters, input).reason.empty()) return {};
  const CodeTable table = table_of(graph, parameters, analysis, id);
  if (!table.undefined) return {};
  // Codes of negative values never come up, as with symmetric codes after a ReLU.
  if (!table.undefined_from_zero && Signs(graph).never_negative(input)) return {};
  return refusal(fmt::format("{} is NaN for code {} of {}", graph.describe(x.source),
                             *table.undefined, graph.name(input)),
                 "limit its operand to values for which it is defined");
}

}  // namespace

Verdict check_numbers(const Graph& graph, const Parameters& parameters,
                      const IntegerAnalysis& analysis, NodeId id) {
  const IntegerForm& form = analysis[id];
  if (form.source != id) return {};
  if (form.kind == IntegerKind::Codes && form.quantizer == id) {
    Verdict wrong = check_scale(graph, parameters, id);
    return wrong.reason.empty() ? check_table(graph, parameters, analysis, id) : wrong;
  }
  // Rows of a table of weights have its scale.
  if (form.kind == IntegerKind::Codes && analysis[form.quantizer].kind == IntegerKind::Weight) {
    return check_scale(graph, parameters, form.quantizer);
  }
  if (form.bias.index >= 0 && graph[form.bias].operands.empty()) {
    return check_bias(leaf_values(graph, parameters, form.bias), "");
  }
  return {};
}

Verdict check_leaves(const Graph& graph, const Parameters& parameters,
                     const LoweredNorm& norm) {
  for (NodeId id : norm.leaves) {
    const std::vector<float> values = leaf_values(graph, parameters, id);
    Verdict wrong = check_weights(values, "");
    if (wrong.reason.empty()) continue;
    wrong.reason = fmt::format("{}: {}", graph.describe(id), wrong.reason);
    return wrong;
  }
  return {};
}

Graph with_larger_batch(const Graph& graph) {
  if (!graph.batch()) return graph;
  try {
    return graph.with_batch(*graph.batch() + 1);
  } catch (const GraphError&) {
    return graph;
  }
}

Verdict check_samples(const Graph& graph, const Graph& larger, NodeId id) {
  const auto grows = [&](NodeId each) {
    return graph[each].type.shape != larger[each].type.shape;
  };
  const Node& node = graph[id];
  // Of a quantizer that an operand names, only the scales are read.
  const std::vector<Slot> slots = slots_of(node.op);
  bool reads = false;
  for (size_t k = 0; k < node.operands.size(); ++k) {
    reads = reads || (slots[k].scales == Scales::None && grows(node.operands[k]));
  }
  if (!reads) return {};
  const Shape& shape = node.type.shape;
  const Shape& more = larger[id].type.shape;
  const int64_t batch = graph.batch().value_or(1);
  // As many rows for each sample, one sample after the other.
  const bool rows = shape.rank() > 0 && more == shape.with(0, more[0]) &&
                    shape[0] * (batch + 1) == more[0] * batch;
  std::vector<TensorType> inputs;
  for (const NodeId x : node.operands) inputs.push_back(graph[x].type);
  if (rows && !mixes_samples(node.op, inputs)) return {};
  return {
      .reason = "mixes the samples of the batch, so each output depends on other samples",
      .remedy = "keep the samples along axis 0, and compute with the axes of a sample alone"};
}

namespace {

/// True if only maxima read a node, directly or through quantizers.
bool only_maxima_read(const Graph& graph, NodeId id) {
  if (std::ranges::count(graph.outputs(), id) > 0) return false;
  bool read = false;
  for (const NodeId reader : ids(graph)) {
    const Node& node = graph[reader];
    if (std::ranges::count(node.operands, id) == 0) continue;
    read = true;
    if (is_any<Max, MaxPool>(node.op)) continue;
    if (!is_quantizer(node.op) || !only_maxima_read(graph, reader)) return false;
  }
  return read;
}

}  // namespace

bool is_below_maxima(const Graph& graph, NodeId id) {
  return std::get<Pad>(graph[id].op).value < 0 && only_maxima_read(graph, id);
}

bool has_far_border(const Pad& pad) {
  constexpr double largest = 256;
  return std::fabs(pad.value) > largest;
}

bool can_show(const IntegerValue& value, const Shape& shape) {
  const bool kept = shape.rank() > 0 && shape[-1] == value.type.shape[-1];
  return value.scales.size() <= 1 || kept;
}

}  // namespace qtape
