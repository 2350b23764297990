#include "qtape/deploy/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "qtape/core/code_types.h"
#include "qtape/deploy/convert_order.h"
#include "qtape/deploy/missing_scale.h"
#include "qtape/deploy/weights.h"
#include "qtape/engine/quantizers.h"
#include "qtape/kernels/quantize/pack.h"
#include "qtape/kernels/quantize/quantize.h"
#include "qtape/kernels/quantize/requantize.h"

namespace qtape {

using namespace kernels;
namespace {

// More than any code is from its zero point: values stay finite.
constexpr double max_distance = 0x1p17;

class Converter {
 public:
  Converter(const Graph& graph, Parameters& parameters, const ConvertOptions& options)
      : graph_(graph),
        parameters_(parameters),
        options_(options),
        analysis_(analyze_integers(graph)),
        program_(options.requantization) {}

  Conversion run() {
    std::vector<NodeId> outputs = options_.outputs;
    if (outputs.empty()) {
      check(!graph_.outputs().empty(), "the graph names no outputs");
      outputs = {graph_.outputs()[0]};
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

  /// Also loads the weights.
  void check_all(std::span<const NodeId> outputs) {
    std::vector<std::string> reasons;
    const std::vector<bool> needed = needed_for(graph_, outputs);
    load_weights(needed);
    for (int32_t i = 0; i < graph_.size(); ++i) {
      const NodeId id{i};
      if (!needed[static_cast<size_t>(i)]) continue;
      const std::string& reason = analysis_.reasons[static_cast<size_t>(i)];
      const std::string wrong = reason.empty() ? wrong_numbers(id) : reason;
      if (!wrong.empty()) reasons.push_back(fmt::format("{}: {}", graph_.describe(id), wrong));
    }
    for (NodeId id : outputs) {
      const std::string wrong = wrong_output(id);
      if (!wrong.empty() && reasons.empty()) {
        reasons.push_back(fmt::format("{}: {}", graph_.describe(id), wrong));
      }
    }
    if (reasons.empty()) return;
    std::string text;
    for (const std::string& reason : reasons) text += (text.empty() ? "" : "; ") + reason;
    fail<GraphError>("cannot convert {} node{}: {}", reasons.size(),
                     reasons.size() == 1 ? "" : "s", text);
  }

  /// What is wrong with the numbers of an integer node: scales, weights, biases.
  std::string wrong_numbers(NodeId id) {
    const Node& node = graph_[id];
    if (is_quantizer(node.op) && form(id).kind == IntegerKind::Codes) return wrong_scale(id);
    if (const auto w = weights_.find(id); w != weights_.end()) return w->second.wrong;
    if (!std::holds_alternative<AddBias>(node.op) ||
        form(id).kind != IntegerKind::Accumulators) {
      return "";
    }
    const auto values = bias_values(graph_, parameters_, bias_leaf(graph_, id));
    const auto nan = std::ranges::find_if(values, [](float v) { return std::isnan(v); });
    return nan == values.end() ? "" : fmt::format("bias {} is NaN", nan - values.begin());
  }

  std::string wrong_scale(NodeId id) const {
    const auto found = qparams(graph_, parameters_, id);
    if (found.empty()) {
      return "takes its scale from each batch: use EMA or Fixed, and calibrate";
    }
    if (found[0].scale == 0) {
      return missing_scale(graph_, parameters_, id, 0) + ": train or calibrate first";
    }
    const auto most = static_cast<float>(found[0].scale * max_distance);
    if (!are_scales(found[0].scale, 1) || !std::isfinite(most)) {
      return fmt::format("scale must be a normal f32 above 0 and below 2^111, got {}",
                         found[0].scale);
    }
    return to_string(zero_point_fault(found[0].zero_point, grid_of(graph_, id).limits, 0));
  }

  std::string wrong_output(NodeId id) const {
    const IntegerForm& x = form(id);
    if (x.kind == IntegerKind::Blend) return "is not quantized: quantize its output";
    if (!x.is_integer()) return "has no integers that could be an output";
    if (options_.integer_outputs && x.is_clamped()) {
      return "is limited without a grid: quantize its output";
    }
    return "";
  }

  void load_weights(const std::vector<bool>& needed) {
    std::vector<NodeId> ids;
    for (int32_t i = 0; i < graph_.size(); ++i) {
      const bool weight =
          form(NodeId{i}).kind == IntegerKind::Weight && is_quantizer(graph_[NodeId{i}].op);
      if (weight && needed[static_cast<size_t>(i)]) ids.push_back(NodeId{i});
    }
    visit_weights(graph_, parameters_, ids, [this](NodeId id, const WeightView& view) {
      Weights& w = weights_[id];
      w = {{view.values.begin(), view.values.end()}, view.qparams, view.fault};
      const auto wrong =
          std::ranges::find_if_not(w.values, [](float v) { return std::isfinite(v); });
      if (wrong == w.values.end()) return;
      w.wrong = fmt::format("weight {} is {}", wrong - w.values.begin(),
                            std::isnan(*wrong) ? "NaN" : "infinite");
    });
  }

  QParams<float> qparams_of_node(NodeId quantizer) const {
    const QParams<double> q = qparams(graph_, parameters_, quantizer)[0];
    return {static_cast<float>(q.scale), static_cast<float>(q.zero_point)};
  }

  /// The grid of a quantizer with what Relu and Clamp in front of it leave of its codes.
  CodeGrid grid(NodeId quantizer, double low, double high) const {
    const Grid full = grid_of(graph_, quantizer);
    const QParams<float> q = qparams_of_node(quantizer);
    const CodeLimits limits = clamped_limits(low, high, q, full);
    return {code_dtype(full.limits), double{q.scale}, static_cast<int32_t>(q.zero_point),
            limits.q_min, limits.q_max};
  }

  /// The label of a graph node, where no node of the program has it yet.
  std::string label(NodeId id) const {
    const std::string& text = graph_[id].label;
    return program_.find(text) ? std::string() : text;
  }

  /// The label of the floats of an output whose integers may have the node's own.
  std::string value_label(NodeId id) const {
    const std::string& text = graph_[id].label;
    if (!program_.find(text)) return text;
    const std::string longer = text + ".value";
    return program_.find(longer) || graph_.find(longer) ? std::string() : longer;
  }

  /// The axis of the node that grows with the batch, where there is just one.
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

  /// `x` under the shape of the graph's node `id`.
  NodeId shaped(NodeId x, NodeId id) {
    const Shape& shape = graph_[id].type.shape;
    if (program_[x].value.type.shape == shape) return x;
    std::vector<int64_t> extents(shape.extents().begin(), shape.extents().end());
    const auto axis = batch_axis(id);
    if (axis && shape.elements() > 0) extents[static_cast<size_t>(*axis)] = -1;
    return program_.add(integer::Reshape{qtape::Reshape{.shape = extents}}, {x});
  }

  /// The codes of a node whose form is Codes, in its shape.
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

  NodeId make_codes(NodeId source) {
    const Node& node = graph_[source];
    const NodeId x = node.operands[0];
    if (const auto* slice = std::get_if<Slice>(&node.op)) {
      return program_.add(integer::Slice{*slice}, {codes(x)}, label(source));
    }
    if (const auto* max = std::get_if<Max>(&node.op)) {
      return program_.add(integer::Max{max->axes, max->keep_dims}, {codes(x)}, label(source));
    }
    if (std::holds_alternative<Relu>(node.op)) {
      CodeGrid positive =
          grid(form(source).quantizer, 0, std::numeric_limits<double>::infinity());
      return program_.add(integer::Requantize{positive}, {codes(x)}, label(source));
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

  /// Codes of the quantizer's grid from the integers of `x_form`.
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
    const auto* concat = std::get_if<Concat>(&node.op);
    if (concat == nullptr) {
      const NodeId a = codes(node.operands[0]);
      const NodeId b = codes(node.operands[1]);
      return program_.add(integer::Add{target}, {a, b}, std::move(name));
    }
    std::vector<NodeId> pieces;
    for (NodeId operand : node.operands) {
      const IntegerForm piece = form(operand).limited(x_form.low, x_form.high);
      pieces.push_back(shaped(requantized(piece, quantizer, ""), operand));
    }
    return program_.add(integer::Concat{*concat}, pieces, std::move(name));
  }

  /// The accumulators of a MatMul, AddBias, Sum or Mean.
  NodeId accumulators(NodeId source) {
    const auto known = sums_.find(source);
    if (known != sums_.end()) return known->second;
    const Node& node = graph_[source];
    NodeId made;
    if (const auto* sum = std::get_if<Sum>(&node.op)) {
      made = program_.add(integer::Sum{sum->axes, sum->keep_dims, false},
                          {codes(node.operands[0])}, label(source));
    } else if (const auto* mean = std::get_if<Mean>(&node.op)) {
      made = program_.add(integer::Sum{mean->axes, mean->keep_dims, true},
                          {codes(node.operands[0])}, label(source));
    } else {
      made = linear(source);
    }
    return sums_[source] = made;
  }

  NodeId linear(NodeId source) {
    const bool biased = std::holds_alternative<AddBias>(graph_[source].op);
    const NodeId product = biased ? form(graph_[source].operands[0]).source : source;
    const Node& matmul = graph_[product];
    const NodeId x = codes(matmul.operands[0]);
    const NodeId quantizer = form(matmul.operands[1]).source;
    const auto& op = std::get<MatMul>(matmul.op);
    const Shape& stored = graph_[quantizer].type.shape;
    integer::Linear result;
    const int64_t n = op.transpose_b ? stored[0] : stored[1];
    const int64_t k = op.transpose_b ? stored[1] : stored[0];
    result.shape = {n, k};
    const CodeLimits limits = grid_of(graph_, quantizer).limits;
    result.storage_bits = storage_bits(limits.q_min, limits.q_max);
    const std::vector<int8_t> weights = weight_codes(quantizer, n, k, op.transpose_b);
    const auto packed = pack_codes(std::span(weights), result.storage_bits);
    result.weight = {{DType::U8, {static_cast<int64_t>(packed.size())}}, packed};
    std::vector<float> scales;
    for (const auto& q : weights_.at(quantizer).qparams) {
      scales.push_back(static_cast<float>(q.scale));
    }
    result.scales = Tensor::of<float>({static_cast<int64_t>(scales.size())}, scales);
    const std::vector<int32_t> biases =
        biased ? bias_codes(source, program_[x].value.scales[0], scales)
               : std::vector<int32_t>();
    result.bias = Tensor::of<int32_t>({static_cast<int64_t>(biases.size())}, biases);
    result.certificate = certify(weights, n, k, biases, program_[x].value);
    return program_.add(std::move(result), {x}, label(source));
  }

  std::vector<int8_t> weight_codes(NodeId quantizer, int64_t n, int64_t k, bool rows) const {
    const Weights& w = weights_.at(quantizer);
    std::vector<int8_t> codes(static_cast<size_t>(n * k));
    for (int64_t c = 0; c < n; ++c) {
      const auto channel = static_cast<size_t>(w.qparams.size() == 1 ? 0 : c);
      const auto inverse = 1.0f / static_cast<float>(w.qparams[channel].scale);
      for (int64_t i = 0; i < k; ++i) {
        const float value = w.values[static_cast<size_t>(rows ? c * k + i : i * n + c)];
        codes[static_cast<size_t>(c * k + i)] =
            static_cast<int8_t>(round_half_even(value * inverse));
      }
    }
    return codes;
  }

  std::vector<int32_t> bias_codes(NodeId add_bias, double s_x,
                                  const std::vector<float>& scales) const {
    const auto values = bias_values(graph_, parameters_, bias_leaf(graph_, add_bias));
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
    const NodeId floats =
        program_.add(integer::Dequantize{.low = limit(x.low), .high = limit(x.high)}, {made},
                     value_label(id));
    check(program_[floats].value.type.shape == graph_[id].type.shape,
          "{}: an output must not be reshaped", graph_.describe(id));
    return floats;
  }

  NodeId shaped_output(NodeId integers, NodeId id) {
    if (program_[integers].value.is_codes()) return shaped(integers, id);
    check(program_[integers].value.type.shape == graph_[id].type.shape,
          "{}: accumulators must not be reshaped", graph_.describe(id));
    return integers;
  }

  struct Weights {
    std::vector<float> values;
    std::vector<QParams<double>> qparams;
    std::string wrong;  // what keeps them from being codes; else empty
  };

  const Graph& graph_;
  Parameters& parameters_;
  const ConvertOptions& options_;
  IntegerAnalysis analysis_;
  IntegerProgram program_;
  std::optional<Graph> larger_;  // by one sample
  std::map<NodeId, NodeId> inputs_;
  std::map<NodeId, NodeId> codes_;  // by source
  std::map<NodeId, NodeId> sums_;   // by source
  std::map<NodeId, Weights> weights_;
};

}  // namespace

IntegerProgram convert(const Graph& graph, Parameters& parameters,
                       const ConvertOptions& options) {
  return convert_traced(graph, parameters, options).program;
}

Conversion convert_traced(const Graph& graph, Parameters& parameters,
                          const ConvertOptions& options) {
  return Converter(graph, parameters, options).run();
}

}  // namespace qtape
