#include "qtape/deploy/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "qtape/core/code_types.h"
#include "qtape/core/out_of_memory.h"
#include "qtape/deploy/checks.h"
#include "qtape/deploy/convert_order.h"
#include "qtape/deploy/weights.h"
#include "qtape/engine/quantizers.h"
#include "qtape/integer/rules/rule_table.h"
#include "qtape/kernels/quantize/pack.h"
#include "qtape/kernels/quantize/quantize.h"
#include "qtape/kernels/quantize/requantize.h"

namespace qtape {

using namespace kernels;
namespace {

class Converter {
 public:
  Converter(const Graph& graph, Parameters& parameters, const ConvertOptions& options)
      : graph_(graph),
        parameters_(parameters),
        options_(options),
        analysis_(analyze_integers(graph)),
        program_(options.requantization) {
    for (const NodeId id : ids(graph_)) {
      const Node& node = graph_[id];
      if (node.label.empty() || !is_view(node.op)) continue;
      const NodeId shown = analysis_.origin(node.operands[0]);
      if (graph_[shown].label.empty()) shown_as_.try_emplace(shown, node.label);
    }
  }

  Conversion run() {
    std::vector<NodeId> outputs = options_.outputs;
    if (outputs.empty()) {
      check(!graph_.outputs().empty(), "the graph names no outputs");
      outputs = graph_.answers();
      check(!outputs.empty(), "all outputs of the graph are losses: it has no answer");
    }
    check(!quantizers(graph_).empty(),
          "the model has no quantizers: train it with them, or insert and calibrate them");
    check_all(outputs);
    for (NodeId id : early_sources(graph_, analysis_, outputs)) source_integers(id);
    std::vector<NodeId> results;
    results.reserve(outputs.size());
    for (NodeId id : outputs) results.push_back(output(id));
    program_.set_outputs(results);
    Conversion result{std::move(program_), {}};
    for (const auto& made : {codes_, sums_}) {
      for (const auto& [source, node] : made) result.pairs.push_back({source, node});
    }
    std::ranges::sort(result.pairs, {}, &Conversion::Pair::program);
    return result;
  }

 private:
  const IntegerForm& form(NodeId id) const { return analysis_[id]; }

  /// Checks all nodes; also loads the weights.
  void check_all(std::span<const NodeId> outputs) {
    std::vector<std::string> reasons;
    const std::vector<bool> needed = needed_for(graph_, outputs);
    load_weights(needed);
    const auto add = [&](NodeId id, const Verdict& wrong) {
      if (wrong.reason.empty()) return;
      reasons.push_back(
          fmt::format("{}: {}: {}", graph_.describe(id), wrong.reason, wrong.remedy));
    };
    for (const NodeId id : ids(graph_)) {
      if (!needed[at(id)]) continue;
      add(id, analysis_.refusal(id));
      if (!analysis_.refusal(id).reason.empty()) continue;
      if (const auto b = biases_.find(id); b != biases_.end()) add(id, b->second.wrong);
      const auto w = weights_.find(id);
      add(id, w != weights_.end() ? w->second.wrong
                                  : check_numbers(graph_, parameters_, analysis_, id));
    }
    for (NodeId id : outputs) {
      if (reasons.empty()) add(id, check_output(form(id), options_.integer_outputs));
    }
    if (reasons.empty()) return;
    std::string text;
    for (const std::string& reason : reasons) text += (text.empty() ? "" : "; ") + reason;
    fail<GraphError>("cannot convert {} node{}: {}", reasons.size(),
                     reasons.size() == 1 ? "" : "s", text);
  }

  void load_weights(const std::vector<bool>& needed) {
    std::set<NodeId> biases;
    std::set<NodeId> wanted;
    for (const NodeId id : ids(graph_)) {
      if (!needed[at(id)]) continue;
      const IntegerForm& x = form(id);
      if (x.kind == IntegerKind::Weight && x.source == id) wanted.insert(id);
      if (x.bias.index >= 0 && !graph_[x.bias].operands.empty()) biases.insert(x.bias);
    }
    wanted.insert(biases.begin(), biases.end());
    const std::vector<NodeId> all(wanted.begin(), wanted.end());
    visit_weights(graph_, parameters_, all, [&](NodeId id, const WeightView& view) {
      if (biases.contains(id)) {
        biases_[id] = {{view.values.begin(), view.values.end()},
                       check_bias(view.values, view.fault)};
      }
      if (form(id).kind != IntegerKind::Weight) return;
      Weights& w = weights_[id];
      w = {{}, view.qparams, check_weights(view.values, view.fault)};
      if (view.codes == nullptr || !w.wrong.reason.empty()) return;
      w.codes.reserve(view.values.size());
      for (int64_t i = 0; i < std::ssize(view.values); ++i) {
        w.codes.push_back(static_cast<int8_t>(view.codes->at(i)));
      }
    });
  }

  QParams<float> qparams_of_node(NodeId quantizer) const {
    const QParams<double> q = qparams(graph_, parameters_, quantizer)[0];
    return {static_cast<float>(q.scale), static_cast<float>(q.zero_point)};
  }

  /// Returns the grid of a quantizer, with its codes restricted by preceding Relu and Clamp.
  CodeGrid grid(NodeId quantizer, double low, double high) const {
    const Grid full = grid_of(graph_, quantizer);
    const QParams<float> q = qparams_of_node(quantizer);
    const CodeLimits limits = clamped_limits(low, high, q, full);
    return {code_dtype(full.limits), double{q.scale}, static_cast<int32_t>(q.zero_point),
            limits.q_min, limits.q_max};
  }

  /// Returns the label of a graph node, or of its first view if it has none; empty if a node of
  /// the program already has this label.
  std::string label(NodeId id) const {
    const auto shown = shown_as_.find(id);
    const std::string& text = shown == shown_as_.end() ? graph_[id].label : shown->second;
    return program_.find(text) ? std::string() : text;
  }

  /// Returns the label for the floats of an output, whose integers may already have the node's
  /// own label.
  std::string value_label(NodeId id) const {
    const std::string& text = graph_[id].label;
    if (!program_.find(text)) return text;
    const std::string longer = text + ".value";
    return program_.find(longer) || graph_.find(longer) ? std::string() : longer;
  }

  /// Returns the axis of the node that grows with the batch, if there is exactly one.
  std::optional<int> batch_axis(NodeId id) {
    if (!graph_.batch()) return std::nullopt;
    if (!larger_) {
      try {
        larger_ = graph_.with_batch(*graph_.batch() + 1);
      } catch (const GraphError&) {
        larger_ = graph_;
      }
    }
    const Shape& one = graph_[id].type.shape;
    const Shape& other = (*larger_)[id].type.shape;
    std::optional<int> found;
    for (int axis = 0; axis < one.rank(); ++axis) {
      if (one[axis] == other[axis]) continue;
      if (found) return std::nullopt;
      found = axis;
    }
    return found;
  }

  /// Returns `x` in the shape of the graph's node `id`; a new node gets the label `label`.
  NodeId shaped(NodeId x, NodeId id, const std::string& label = {}) {
    const Shape& shape = graph_[id].type.shape;
    if (program_[x].value.type.shape == shape) return x;
    std::vector<int64_t> extents(shape.extents().begin(), shape.extents().end());
    const auto axis = batch_axis(id);
    if (axis && shape.elements() > 0) extents[static_cast<size_t>(*axis)] = -1;
    return program_.add(integer::Reshape{qtape::Reshape{.shape = extents}}, {x}, label);
  }

  /// Returns the codes of a node of kind Codes, in its shape.
  NodeId codes(NodeId id) { return shaped(source_codes(form(id).source), id); }

  NodeId source_codes(NodeId source) {
    const auto known = codes_.find(source);
    if (known != codes_.end()) return known->second;
    const NodeId made = make_codes(source);
    return codes_[source] = made;
  }

  NodeId source_integers(NodeId source) {
    return form(source).kind == IntegerKind::Accumulators ? accumulators(source)
                                                          : source_codes(source);
  }

  Numbers numbers_of(NodeId x) const {
    Numbers numbers;
    numbers.x = graph_[x].type.shape;
    return numbers;
  }

  NodeId make_codes(NodeId source) {
    const NodeId x = graph_[source].operands[0];
    if (!is_quantizer(graph_[source].op)) {
      constexpr double inf = std::numeric_limits<double>::infinity();
      Numbers numbers = numbers_of(x);
      numbers.grid = grid(form(source).quantizer, -inf, inf);
      return program_.add(emit(graph_[source].op, numbers), {codes(x)}, label(source));
    }
    if (form(x).is_integer()) {
      return shaped(requantized(form(x), source, label(source)), source);
    }
    return quantized_input(source);
  }

  NodeId quantized_input(NodeId quantizer) {
    const NodeId x = analysis_.origin(graph_[quantizer].operands[0]);
    if (!inputs_.contains(x)) {
      const auto& input = std::get<Input>(graph_[x].op);
      inputs_[x] = program_.add(integer::Input{input.shape, input.batch}, {}, graph_[x].label);
    }
    const Grid full = grid_of(graph_, quantizer);
    constexpr double inf = std::numeric_limits<double>::infinity();
    const integer::Quantize op{.grid = grid(quantizer, -inf, inf),
                               .rounding = full.rounding,
                               .division = full.division,
                               .zero_point = full.zero_point};
    return shaped(program_.add(op, {inputs_[x]}, label(quantizer)), quantizer);
  }

  /// Returns codes on the quantizer's grid, from the integers of `x_form`.
  NodeId requantized(const IntegerForm& x_form, NodeId quantizer, std::string name) {
    const CodeGrid target = grid(quantizer, x_form.low, x_form.high);
    if (x_form.kind == IntegerKind::Accumulators) {
      return program_.add(integer::Requantize{target}, {accumulators(x_form.source)},
                          std::move(name));
    }
    if (x_form.kind == IntegerKind::Codes) {
      return program_.add(integer::Requantize{target}, {codes(x_form.source)}, std::move(name));
    }
    const Node& node = graph_[x_form.source];
    if (maps(node.op)) return looked_up(quantizer, target, std::move(name));
    const IntegerOp op = emit(node.op, {.grid = target});
    std::vector<NodeId> operands;
    for (NodeId operand : node.operands) {
      const IntegerForm piece = form(operand).limited(x_form.low, x_form.high);
      operands.push_back(joins(node.op) ? shaped(requantized(piece, quantizer, ""), operand)
                                        : codes(operand));
    }
    return program_.add(op, operands, std::move(name));
  }

  /// Returns codes of a quantizer that follows a function of codes, by a lookup table.
  NodeId looked_up(NodeId quantizer, CodeGrid target, std::string name) {
    const NodeId x = graph_[quantizer].operands[0];
    const CodeTable table = table_of(graph_, parameters_, analysis_, quantizer);
    const CodeLimits limits = grid_of(graph_, quantizer).limits;
    target.low = limits.q_min;
    target.high = limits.q_max;
    const NodeId codes_in = codes(table.codes);
    Numbers numbers;
    numbers.grid = target;
    numbers.table = table.values;
    return program_.add(emit(graph_[form(x).source].op, numbers), {codes_in}, std::move(name));
  }

  /// Returns the accumulators of a product, of its bias or of a sum.
  NodeId accumulators(NodeId source) {
    const auto known = sums_.find(source);
    if (known != sums_.end()) return known->second;
    const bool product = form(source).product.index >= 0;
    return sums_[source] = product ? multiplied(source) : summed(source);
  }

  NodeId summed(NodeId source) {
    const NodeId x = graph_[source].operands[0];
    return program_.add(emit(graph_[source].op, numbers_of(x)), {codes(x)}, label(source));
  }

  NodeId multiplied(NodeId source) {
    const Node& product = graph_[form(source).product];
    const NodeId x = codes(product.operands[0]);
    const NodeId weights = product.operands[*weights_operand(product.op)];
    const WeightLayout layout = weight_layout(product.op, graph_[weights].type.shape);
    const NodeId quantizer = form(weights).source;
    const CodeLimits limits = grid_of(graph_, quantizer).limits;
    std::vector<float> scales;
    for (const auto& q : weights_.at(quantizer).qparams) {
      scales.push_back(static_cast<float>(q.scale));
    }
    const IntegerValue& value = program_[x].value;
    const Shape shape{layout.outputs, layout.terms};
    Numbers numbers;
    numbers.weights.shape = shape;
    numbers.weights_shape = graph_[weights].type.shape;
    const IntegerValue factors = factors_of(emit(product.op, numbers), value);
    numbers.weights =
        pack_weights(in_rows(weights_.at(quantizer).codes, layout), shape,
                     storage_bits(limits.q_min, limits.q_max), scales,
                     bias_codes(form(source).bias, value.scales[0], scales), factors);
    return program_.add(emit(product.op, numbers), {x}, label(source));
  }

  static std::vector<int8_t> in_rows(const std::vector<int8_t>& codes,
                                     const WeightLayout& layout) {
    if (layout.rows) return codes;
    std::vector<int8_t> turned(codes.size());
    for (int64_t c = 0; c < layout.outputs; ++c) {
      for (int64_t i = 0; i < layout.terms; ++i) {
        turned[static_cast<size_t>(c * layout.terms + i)] =
            codes[static_cast<size_t>(layout.at(c, i))];
      }
    }
    return turned;
  }

  std::vector<int32_t> bias_codes(NodeId bias, double s_x,
                                  const std::vector<float>& scales) const {
    if (bias.index < 0) return {};
    const auto computed = biases_.find(bias);
    const auto values = computed != biases_.end() ? computed->second.values
                                                  : leaf_values(graph_, parameters_, bias);
    std::vector<int32_t> codes;
    for (size_t c = 0; c < values.size(); ++c) {
      const float s_w = scales[scales.size() == 1 ? 0 : c];
      codes.push_back(static_cast<int32_t>(bias_code(values[c], static_cast<float>(s_x), s_w)));
    }
    return codes;
  }

  NodeId output(NodeId id) {
    const IntegerForm& x = form(id);
    const NodeId made =
        x.kind == IntegerKind::Accumulators ? accumulators(x.source) : codes(id);
    if (options_.integer_outputs) return shaped_output(made, id);
    const auto limit = [](double v) {
      return std::isfinite(v) ? std::optional<double>(v) : std::nullopt;
    };
    const integer::Dequantize decode{.low = limit(x.low), .high = limit(x.high)};
    const std::string name = value_label(id);
    const Shape& shape = graph_[id].type.shape;
    if (can_show(program_[made].value, shape)) {
      return program_.add(decode, {shaped(made, id)}, name);
    }
    return shaped(program_.add(decode, {made}), id, name);
  }

  /// True if a value can be reshaped to `shape`: scales of channels belong to the last axis.
  static bool can_show(const IntegerValue& value, const Shape& shape) {
    const bool kept = shape.rank() > 0 && shape[-1] == value.type.shape[-1];
    return value.scales.size() <= 1 || kept;
  }

  NodeId shaped_output(NodeId integers, NodeId id) {
    const Shape& shape = graph_[id].type.shape;
    check(can_show(program_[integers].value, shape),
          "{}: its accumulators have {} scales, one for each channel, and the view {} joins "
          "channels with other axes: quantize its output, or use the output before the view",
          graph_.describe(id), program_[integers].value.scales.size(), to_string(shape));
    return shaped(integers, id);
  }

  struct Weights {
    std::vector<int8_t> codes;  // as the quantizer writes them
    std::vector<QParams<double>> qparams;
    Verdict wrong;  // why they have no codes
  };

  struct Bias {
    std::vector<float> values;
    Verdict wrong;  // why they have no codes
  };

  const Graph& graph_;
  Parameters& parameters_;
  const ConvertOptions& options_;
  IntegerAnalysis analysis_;
  IntegerProgram program_;
  std::optional<Graph> larger_;  // batch larger by one
  std::map<NodeId, NodeId> inputs_;
  std::map<NodeId, NodeId> codes_;  // by source
  std::map<NodeId, NodeId> sums_;   // by source
  std::map<NodeId, Weights> weights_;
  std::map<NodeId, std::string> shown_as_;  // labels of views, by source
  std::map<NodeId, Bias> biases_;           // biases that are not leaves
};

}  // namespace

IntegerProgram convert(const Graph& graph, Parameters& parameters,
                       const ConvertOptions& options) {
  return convert_traced(graph, parameters, options).program;
}

Conversion convert_traced(const Graph& graph, Parameters& parameters,
                          const ConvertOptions& options) {
  return during("converting to integers", {},
                [&] { return Converter(graph, parameters, options).run(); });
}

}  // namespace qtape
