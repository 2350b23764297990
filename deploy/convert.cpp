#include "qtape/deploy/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "qtape/core/code_types.h"
#include "qtape/core/float_environment.h"
#include "qtape/core/out_of_memory.h"
#include "qtape/core/reasons.h"
#include "qtape/deploy/checks.h"
#include "qtape/deploy/weights.h"
#include "qtape/engine/quantizers.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/rules/lowering.h"
#include "qtape/integer/rules/rule_table.h"
#include "qtape/kernels/quantize/pack.h"
#include "qtape/kernels/quantize/quantize.h"
#include "qtape/kernels/quantize/requantize.h"

namespace qtape {

using namespace kernels;
namespace {

class Converter {
 public:
  Converter(const Graph& graph, const Parameters& parameters, const ConvertOptions& options)
      : graph_(graph),
        parameters_(parameters),
        options_(options),
        lowered_(lower(graph)),
        larger_(with_larger_batch(graph)),
        program_(options.requantization) {
    for (const NodeId id : ids(graph_)) {
      const Node& node = graph_[id];
      if (node.label.empty() || !is_view(node.op)) continue;
      const NodeId shown = lowered_.analysis.origin(node.operands[0]);
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
          "the model has no quantizers: train it with them, or add them by qtape calibrate");
    check_all(outputs);
    build(outputs);
    if (!std::ranges::is_sorted(inputs_, {}, &decltype(inputs_)::value_type::second)) {
      begin_with_inputs();
      build(outputs);
    }
    Conversion result{std::move(program_), {}};
    for (const auto& [source, node] : integers_) {
      // Tapes compute indices from values.
      if (form(source).kind != IntegerKind::Indices) result.pairs.push_back({source, node});
    }
    std::ranges::sort(result.pairs, {}, &Conversion::Pair::program);
    return result;
  }

 private:
  const IntegerForm& form(NodeId id) const { return lowered_[id]; }

  void build(std::span<const NodeId> outputs) {
    std::vector<ProgramNodeId> results;
    results.reserve(outputs.size());
    for (NodeId id : outputs) results.push_back(output(id));
    program_.set_outputs(results);
  }

  /// Begins again with the inputs that were used, in the order of the graph: it is that of the
  /// arguments of a program.
  void begin_with_inputs() {
    program_ = IntegerProgram(options_.requantization);
    integers_.clear();
    const auto used = std::exchange(inputs_, {});
    for (const auto& [x, made] : used) input(x, lowered_.op(x));
  }

  /// Checks all nodes; also loads the weights.
  void check_all(std::span<const NodeId> outputs) {
    Reasons reasons;
    const std::vector<bool> needed = needed_for(graph_, outputs);
    load_weights(needed);
    const auto add = [&](NodeId id, const Verdict& wrong) {
      if (wrong.reason.empty()) return;
      reasons.add(graph_.describe(id), fmt::format("{}: {}", wrong.reason, wrong.remedy));
    };
    for (const NodeId id : ids(graph_)) {
      if (!needed[at(id)]) continue;
      add(id, lowered_.analysis.refusal(id));
      if (!lowered_.analysis.refusal(id).reason.empty()) continue;
      add(id, check_samples(graph_, larger_, id));
      if (const auto b = biases_.find(id); b != biases_.end()) add(id, b->second.wrong);
      if (lowered_.op(id).norm)
        add(id, check_leaves(graph_, parameters_, *lowered_.op(id).norm));
      const auto w = weights_.find(id);
      add(id, w != weights_.end() ? w->second.wrong
                                  : check_numbers(graph_, parameters_, lowered_.analysis, id));
    }
    for (NodeId id : outputs) {
      if (reasons.empty()) add(id, check_output(form(id), options_.integer_outputs));
    }
    check(reasons.empty(), "cannot convert {} node{}: {}", reasons.size(),
          reasons.size() == 1 ? "" : "s", reasons.text());
  }

  void load_weights(const std::vector<bool>& needed) {
    std::set<NodeId> wanted;
    for (const NodeId id : ids(graph_)) {
      const IntegerForm& x = form(id);
      if (needed[at(id)] && x.kind == IntegerKind::Weight && x.source == id) wanted.insert(id);
    }
    const auto visit = [&](NodeId id, const WeightView& view) {
      if (form(id).kind != IntegerKind::Weight) return;
      Weights& w = weights_[id];
      w.qparams = view.qparams;
      w.wrong = check_weights(view.raw.empty() ? view.values : view.raw, view.fault);
      if (view.codes == nullptr || !w.wrong.reason.empty()) return;
      w.codes = {view.codes->value.type, {}};
      w.codes.data.assign(view.codes->data, view.codes->data + w.codes.type.bytes());
    };
    biases_ = visit_constants(graph_, parameters_, lowered_.analysis, needed, wanted, visit);
  }

  QParams<float> qparams_of_node(NodeId quantizer) const {
    const QParams<double> q = qparams(graph_, parameters_, quantizer)[0];
    return {static_cast<float>(q.scale), static_cast<float>(q.zero_point)};
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
  std::optional<int> batch_axis(NodeId id) const {
    const Shape& one = graph_[id].type.shape;
    const Shape& other = larger_[id].type.shape;
    std::optional<int> found;
    for (int axis = 0; axis < one.rank(); ++axis) {
      if (one[axis] == other[axis]) continue;
      if (found) return std::nullopt;
      found = axis;
    }
    return found;
  }

  /// Returns `x` in the shape of the graph's node `id`; a new node gets the label `label`.
  ProgramNodeId shaped(ProgramNodeId x, NodeId id, const std::string& label = {}) {
    const Shape& shape = graph_[id].type.shape;
    if (program_[x].value.type.shape == shape) return x;
    std::vector<int64_t> extents(shape.extents().begin(), shape.extents().end());
    const auto axis = batch_axis(id);
    if (axis && shape.elements() > 0) extents[static_cast<size_t>(*axis)] = -1;
    return program_.add(integer::Reshape{qtape::Reshape{.shape = extents}}, {x}, label);
  }

  /// One step of building a source. A stack of steps, in place of recursion, is as deep as the
  /// graph may be.
  struct Task {
    enum class Do : uint8_t {
      Source,  ///< build the integers of `node`
      Op,      ///< build `op` with its operands
      Add,     ///< add `op`, whose operands are built
      Shape,   ///< bring the result to the shape of `node`
      Keep     ///< the same, and keep it as the integers of `node`
    };
    Do what;
    NodeId node = {};
    const LoweredOp* op = nullptr;
    std::string label = {};
  };

  /// Returns the codes or accumulators of a source.
  ProgramNodeId integers(NodeId source) {
    tasks_.push_back({Task::Do::Source, source});
    while (!tasks_.empty()) {
      const Task task = std::move(tasks_.back());
      tasks_.pop_back();
      run(task);
    }
    const ProgramNodeId made = built_.back();
    built_.pop_back();
    return made;
  }

  void run(const Task& task) {
    switch (task.what) {
      case Task::Do::Source:
        return begin_source(task.node);
      case Task::Do::Op:
        return begin_op(task);
      case Task::Do::Add:
        return add(*task.op, task.label);
      case Task::Do::Shape:
        built_.back() = shaped(built_.back(), task.node);
        return;
      case Task::Do::Keep:
        integers_[task.node] = built_.back() = shaped(built_.back(), task.node);
    }
  }

  void begin_source(NodeId source) {
    if (const auto known = integers_.find(source); known != integers_.end()) {
      built_.push_back(known->second);
      return;
    }
    tasks_.push_back({Task::Do::Keep, source});
    tasks_.push_back({Task::Do::Op, source, &lowered_.op(source), label(source)});
  }

  void begin_op(const Task& task) {
    const LoweredOp& op = *task.op;
    if (op.emitter == LoweredOp::Emitter::Input) return built_.push_back(input(op.node, op));
    if (op.emitter == LoweredOp::Emitter::Quantize) {
      const bool constant = form(op.node).kind == IntegerKind::Weight;
      return built_.push_back(constant ? constant_codes(op, task.label)
                                       : quantized_input(op, task.label));
    }
    tasks_.push_back({Task::Do::Add, {}, &op, task.label});
    for (size_t k = op.operands.size(); k-- > 0;) {
      const NodeId operand = op.operands[k];
      tasks_.push_back({Task::Do::Shape, operand});
      tasks_.push_back(op.pieces.empty() ? Task{Task::Do::Source, form(operand).source}
                                         : Task{Task::Do::Op, operand, &op.pieces[k]});
    }
  }

  void add(const LoweredOp& op, const std::string& name) {
    const auto first = built_.end() - std::ssize(op.operands);
    const std::vector<ProgramNodeId> operands(first, built_.end());
    built_.erase(first, built_.end());
    IntegerOp made = emit(graph_, op, numbers_of(op, operands));
    if (op.norm) load_norm(*op.norm, program_[operands[0]].value, made);
    built_.push_back(program_.add(std::move(made), operands, name));
  }

  void load_norm(const LoweredNorm& norm, const IntegerValue& x, IntegerOp& op) const {
    std::vector<std::vector<float>> values;
    for (NodeId id : norm.leaves) values.push_back(leaf_values(graph_, parameters_, id));
    const std::vector<std::span<const float>> leaves(values.begin(), values.end());
    set_numbers(op, x, qtape::numbers_of(norm, leaves));
  }

  /// Returns the input at node `x`, of floats or of the indices of `op`.
  ProgramNodeId input(NodeId x, const LoweredOp& op) {
    if (!inputs_.contains(x)) {
      const auto& of = std::get<Input>(graph_[x].op);
      inputs_[x] =
          program_.add(integer::Input{of.shape, of.batch, op.indices}, {}, graph_[x].label);
    }
    return inputs_[x];
  }

  ProgramNodeId quantized_input(const LoweredOp& op, const std::string& name) {
    const ProgramNodeId x = input(op.operands[0], op);
    return program_.add(emit(graph_, op, numbers_of(op, {})), {x}, name);
  }

  ProgramNodeId constant_codes(const LoweredOp& op, const std::string& name) {
    const Weights& values = weights_.at(op.quantizer);
    const QParams<double>& q = values.qparams[0];
    const CodeGrid grid =
        op.code_grid({static_cast<float>(q.scale), static_cast<float>(q.zero_point)});
    return program_.add(integer::Constant{.grid = grid, .codes = values.codes}, {}, name);
  }

  Numbers numbers_of(const LoweredOp& op, std::span<const ProgramNodeId> operands) const {
    Numbers numbers = op.numbers;
    if (op.has_grid()) numbers.grid = op.code_grid(qparams_of_node(op.quantizer));
    if (op.emitter == LoweredOp::Emitter::Table) {
      numbers.table = table_of(graph_, parameters_, lowered_.analysis, op.quantizer).values;
    }
    if (op.weights) {
      const IntegerValue& x = program_[operands[0]].value;
      numbers.weights = packed(*op.weights, x, factors_of(emit(graph_, op, numbers), x));
    }
    return numbers;
  }

  /// Returns the weights that multiply the codes `x`; `factors` includes padding.
  QuantizedWeights packed(const LoweredWeights& weights, const IntegerValue& x,
                          const IntegerValue& factors) const {
    const Weights& values = weights_.at(weights.quantizer);
    const CodeLimits limits = grid_of(graph_, weights.quantizer).limits;
    std::vector<float> scales;
    for (const auto& q : values.qparams) scales.push_back(static_cast<float>(q.scale));
    const auto* codes = reinterpret_cast<const int8_t*>(values.codes.data.data());
    return pack_weights(in_rows({codes, values.codes.data.size()}, weights.layout),
                        {weights.layout.outputs, weights.layout.terms},
                        storage_bits(limits.q_min, limits.q_max), scales,
                        bias_codes(weights.bias, x.scales[0], scales), factors);
  }

  std::vector<int32_t> bias_codes(NodeId bias, double s_x,
                                  const std::vector<float>& scales) const {
    if (bias.index < 0) return {};
    const auto values = bias_values(graph_, parameters_, biases_, bias);
    std::vector<int32_t> codes;
    for (size_t c = 0; c < values.size(); ++c) {
      const float s_w = scales[scales.size() == 1 ? 0 : c];
      codes.push_back(static_cast<int32_t>(bias_code(values[c], static_cast<float>(s_x), s_w)));
    }
    return codes;
  }

  ProgramNodeId output(NodeId id) {
    const IntegerForm& x = form(id);
    ProgramNodeId made = integers(x.source);
    if (x.kind == IntegerKind::Codes) made = shaped(made, id);
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

  ProgramNodeId shaped_output(ProgramNodeId integers, NodeId id) {
    const Shape& shape = graph_[id].type.shape;
    check(can_show(program_[integers].value, shape),
          "{}: its accumulators have {} scales, one for each channel, and the view {} joins "
          "channels with other axes: quantize its output, or use the output before the view",
          graph_.describe(id), program_[integers].value.scales.size(), to_string(shape));
    return shaped(integers, id);
  }

  struct Weights {
    Tensor codes;  // as the quantizer writes them
    std::vector<QParams<double>> qparams;
    Verdict wrong;  // why they have no codes
  };

  const Graph& graph_;
  const Parameters& parameters_;
  const ConvertOptions& options_;
  Lowered lowered_;
  Graph larger_;  // of a batch larger by one
  IntegerProgram program_;
  std::map<NodeId, ProgramNodeId> inputs_;
  std::vector<Task> tasks_;
  std::vector<ProgramNodeId> built_;          // results that tasks still need
  std::map<NodeId, ProgramNodeId> integers_;  // by source
  std::map<NodeId, Weights> weights_;
  std::map<NodeId, std::string> shown_as_;  // labels of views, by source
  ComputedBiases biases_;
};

}  // namespace

IntegerProgram convert(const Graph& graph, const Parameters& parameters,
                       const ConvertOptions& options) {
  return convert_traced(graph, parameters, options).program;
}

Conversion convert_traced(const Graph& graph, const Parameters& parameters,
                          const ConvertOptions& options) {
  const FloatEnvironment floats;
  return during("converting to integers", {},
                [&] { return Converter(graph, parameters, options).run(); });
}

}  // namespace qtape
