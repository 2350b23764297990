#include "qtape/engine/tape.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <tuple>

#include "qtape/core/out_of_memory.h"
#include "qtape/engine/plan_hooks.h"
#include "qtape/engine/quantizers.h"
#include "qtape/kernels/simd/threads.h"
#include "qtape/ops/families/bf16.h"
#include "qtape/ops/families/decode.h"
#include "qtape/ops/families/sequence.h"

namespace qtape {

using namespace kernels;
namespace {

constexpr auto guard_pattern = std::byte{0xa5};

TapeOptions with_defaults(TapeOptions options, const Graph& graph) {
  require<ArgumentError>(options.threads >= 1, "threads must be at least 1, got {}",
                         options.threads);
  validate(options.schedule);
  require<ArgumentError>(!options.constant_parameters || options.roots.empty(),
                         "a tape with constant_parameters computes no gradients, got {} roots",
                         options.roots.size());
  require<ArgumentError>(
      options.gradient_precision == GradientPrecision::F32 || machine_has_bf16(),
      "gradient_precision BF16: expected a processor with AVX512_BF16 that oneDNN may use "
      "(DNNL_MAX_CPU_ISA), this is not one; F32 runs everywhere");
  if (options.outputs.empty()) {
    options.outputs.assign(graph.outputs().begin(), graph.outputs().end());
  }
  return options;
}

/// Sets learned scales to 0, so that the next step initialises them again from its data.
void restart_learned_scales(const Graph& graph, Parameters& parameters) {
  for (const NodeId id : quantizers(graph)) {
    const std::vector<QuantizerOperand> operands = operands_of(graph[id].op);
    if (operands.empty() || !operands[0].trained) continue;
    const ParameterEntry& entry = parameters.at(graph[graph[id].operands[1]].label);
    std::memset(entry.value, 0, static_cast<size_t>(entry.type.bytes()));
  }
}

}  // namespace

Tape::Tape(Graph graph, Parameters& parameters, TapeOptions options)
    : Tape(std::move(graph), parameters, std::move(options), PlanHooks{}) {}

Tape::Tape(Graph bound, Parameters& parameters, TapeOptions options, const PlanHooks& hooks) try
    : graph_(std::make_shared<const Graph>(std::move(bound))),
      parameters_(parameters),
      options_(with_defaults(std::move(options), *graph_)),
      guard_bytes_(hooks.guard_bytes),
      share_memory_(hooks.share_memory),
      statuses_(static_cast<size_t>(graph_->size())) {
  step_.seed = options_.seed;
  constants_.enabled.resize(statuses_.size());
  step_.warm_up = static_cast<uint64_t>(options_.schedule.warm_up);
  if (options_.arithmetic.prepare) {
    arithmetic_ = options_.arithmetic.prepare(graph_, options_.threads);
  }
  add_layout(true);
  active_ = layouts_[0].get();
  for (const NodeId id : ids(graph())) {
    const bool encoded = main().plan.nodes[at(id)].encoded.has_value();
    if (encoded && is_quantizer(graph()[id].op)) encoders_.push_back(id);
  }
} catch (const std::bad_alloc& error) {
  fail_while("binding a tape", {}, error);
}

const Graph& Tape::graph() const {
  static const Graph none;
  return graph_ ? *graph_ : none;
}

/// The first layout is the one whose values may be held as codes.
void Tape::add_layout(bool encodes) {
  auto layout = std::make_unique<Layout>();
  PlanOptions options{.outputs = options_.outputs,
                      .roots = options_.roots,
                      .input_gradients = options_.input_gradients,
                      .accumulate_gradients = options_.accumulate_gradients,
                      .constant_parameters = options_.constant_parameters,
                      .gradient_precision = options_.gradient_precision,
                      .threads = options_.threads};
  if (arithmetic_) layout->arithmetic = arithmetic_(encodes);
  if (layout->arithmetic) {
    std::vector<NodeId> kept = options_.outputs;
    kept.insert(kept.end(), options_.roots.begin(), options_.roots.end());
    options.encoding = layout->arithmetic->encoding(kept, !options_.roots.empty());
    options.companions = layout->arithmetic->companions(kept);
  }
  layout->plan =
      plan(graph(), options, {.share_memory = share_memory_, .guard_bytes = guard_bytes_});
  layout->arena = AlignedBuffer(layout->plan.arena_bytes);
  layouts_.push_back(std::move(layout));
  if (layouts_.size() == 1) {
    records_ = AlignedBuffer(main().plan.record_bytes);
    check_leaves();
  }
  try {
    paint_guards(*layouts_.back());
    bind(*layouts_.back());
  } catch (...) {
    layouts_.pop_back();
    throw;
  }
}

Tape::Layout& Tape::layout_for(Mode mode) {
  const auto applies = [&](NodeId id) { return mode.quantize && status(id).enabled; };
  if (std::ranges::all_of(encoders_, applies)) return *layouts_[0];
  if (layouts_.size() == 1) add_layout(false);
  return *layouts_[1];
}

void Tape::check_leaves() const {
  for (const NodeId id : ids(graph())) {
    if (!main().plan.nodes[at(id)].needed || !is_persistent(graph()[id].op)) continue;
    const ParameterEntry* entry = parameters().find(graph()[id].label);
    check_node(id, entry != nullptr, "the parameters have no entry of this name");
    check_node(id, entry->type == graph()[id].type,
               "the parameters hold {}, the graph needs {}", entry->type, graph()[id].type);
    check_node(id, entry->trainable() == std::holds_alternative<Parameter>(graph()[id].op),
               "the parameters hold a {} of this name",
               entry->trainable() ? "parameter" : "state");
  }
}

std::byte* Tape::address(const Layout& layout, const Place& place, bool gradient) const {
  if (place.kind == Place::Kind::Arena) return layout.arena.data() + place.offset;
  if (place.kind == Place::Kind::None) return nullptr;
  const Node& leaf = graph()[place.leaf];
  if (const auto* constant = std::get_if<Constant>(&leaf.op)) {
    return const_cast<std::byte*>(constant->value.data.data());
  }
  const ParameterEntry& entry = parameters().at(leaf.label);
  return gradient ? entry.gradient : entry.value;
}

/// Inputs have one position, independent of the layout.
std::byte* Tape::value_address(const Layout& layout, NodeId id) const {
  const bool input = std::holds_alternative<Input>(graph()[id].op);
  const Layout& where = input ? main() : layout;
  return address(where, where.plan.nodes[index_of(id)].value, false);
}

ForwardArithmetic::Lookup Tape::lookup(const Layout& layout) {
  return {.value = [this, &layout](NodeId id) { return value_address(layout, id); },
          .companion =
              [this, &layout](NodeId id) {
                return address(layout, layout.plan.nodes[index_of(id)].companion, false);
              },
          .scales = [this](NodeId id) { return scale_source(id); },
          .status = [this](NodeId id) { return &statuses_[index_of(id)]; },
          .encoded = [this, &layout](NodeId id) { return encoded_operand(layout, id); },
          .backward = !options_.roots.empty()};
}

const ExactValue* Tape::integers(NodeId id) const {
  (void)index_of(id);
  return active().arithmetic ? active().arithmetic->find(id) : nullptr;
}

void Tape::bind(Layout& layout) {
  if (layout.arithmetic) layout.arithmetic->bind(lookup(layout));
  for (size_t i = 0; i < layout.plan.nodes.size(); ++i) {
    if (layout.plan.nodes[i].needed) bind_node(layout, i);
  }
  std::ranges::reverse(layout.backward);
}

ScaleSource Tape::scale_source(NodeId id) const {
  const size_t i = index_of(id);
  return {.record = records_.data() + main().plan.nodes[i].record,
          .channels = channel_map(graph(), id).channels,
          .dtype = scale_dtype(graph()[graph()[id].operands[0]].type.dtype),
          .status = &statuses_[i]};
}

EncodedOperand Tape::encoded_operand(const Layout& layout, NodeId id) const {
  EncodedOperand operand{.codes = value_address(layout, id),
                         .dtype = *layout.plan.nodes[index_of(id)].encoded};
  while (!is_quantizer(graph()[id].op)) id = graph()[id].operands[0];
  operand.source = scale_source(id);
  operand.channels = channel_map(graph(), id);
  operand.grid = grid_of(graph(), id);
  return operand;
}

/// Variant for codes that are computed again from the leaf that the quantizer reads.
EncodedOperand Tape::requantized_operand(const Layout& layout, NodeId id) const {
  EncodedOperand operand = encoded_operand(layout, id);
  operand.codes = nullptr;
  operand.unquantized =
      reinterpret_cast<const float*>(value_address(layout, graph()[id].operands[0]));
  return operand;
}

/// Operands to which the kernels of a node are bound.
struct Tape::Operands {
  std::vector<TensorType> types;
  std::vector<std::byte*> values;
  std::vector<ScaleSource> sources;
  std::vector<EncodedOperand> encoded;
  Kernel decode;  // runs before the kernel of the node
};

/// Operands held as codes are passed as codes if the pass reads codes, as values if the plan
/// has memory for them, and otherwise not at all.
Tape::Operands Tape::operands_of(const Layout& layout, size_t i, Pass pass) const {
  const Node& node = graph().nodes()[i];
  const NodePlan& plan = layout.plan.nodes[i];
  const auto [slots, keep, on_codes] = std::visit(
      []<class X>(const X& op) { return std::tuple(op.slots(), op.keep(), OnCodes<X>); },
      node.op);
  const auto& places = pass == Pass::Forward ? plan.forward_values : plan.backward_values;
  Operands found;
  for (size_t k = 0; k < node.operands.size(); ++k) {
    const NodeId id = node.operands[k];
    const auto& codes = layout.plan.nodes[index_of(id)].encoded;
    const bool scales = slots[k].scales != Scales::None;
    found.types.push_back(graph()[id].type);
    found.sources.push_back(scales ? scale_source(id) : ScaleSource{});
    found.values.push_back(scales ? nullptr : value_address(layout, id));
    found.encoded.push_back({});
    if (!codes || scales) continue;
    const bool same_codes = k == 0 && plan.encoded && (on_codes || keep.view);
    const bool takes_codes = same_codes || (pass == Pass::Backward && keep.takes_codes(k));
    if (takes_codes) {
      const bool again = pass == Pass::Backward && plan.made_again[k];
      found.encoded[k] = again ? requantized_operand(layout, id) : encoded_operand(layout, id);
      if (pass == Pass::Forward || !keep.view) found.types[k].dtype = *codes;
    } else if (k < places.size() && places[k].kind == Place::Kind::Arena) {
      found.values[k] = address(layout, places[k], false);
      found.decode =
          sequence(std::move(found.decode),
                   bind_decode(encoded_operand(layout, id), graph()[id].type.elements(),
                               reinterpret_cast<float*>(found.values[k]), options_.threads));
    } else {
      found.values[k] = nullptr;
    }
  }
  return found;
}

void Tape::bind_node(Layout& layout, size_t i) {
  const NodeId id{static_cast<int32_t>(i)};
  const Node& node = graph()[id];
  const NodePlan& place = layout.plan.nodes[i];
  ForwardArithmetic* arithmetic = layout.arithmetic.get();
  const bool encoded = place.encoded.has_value();
  const bool on_codes = encoded && !is_quantizer(node.op);
  const bool is_view = std::visit([](const auto& op) { return op.keep().view; }, node.op);
  const bool takes_codes = arithmetic != nullptr && arithmetic->takes_codes(id);
  std::vector<Gradient> gradients;
  for (size_t k = 0; k < node.operands.size(); ++k) {
    const NodePlan& operand = layout.plan.nodes[index_of(node.operands[k])];
    gradients.push_back({place.wanted[k] ? address(layout, operand.gradient, true) : nullptr,
                         place.accumulate[k]});
  }
  Operands operands = operands_of(layout, i, Pass::Forward);
  Binding binding{.inputs = operands.types,
                  .output = node.type,
                  .operands = operands.values,
                  .sources = operands.sources,
                  .result = value_address(layout, id),
                  .dy = address(layout, place.gradient, true),
                  .gradients = gradients,
                  .saved = address(layout, place.saved, false),
                  .scratch = address(layout, place.forward_scratch, false),
                  .record = records_.data() + place.record,
                  .codes = arithmetic != nullptr ? arithmetic->codes(id) : nullptr,
                  .gated = place.gated,
                  .gradient_precision = options_.gradient_precision,
                  .status = &statuses_[i],
                  .stream = i,
                  .threads = options_.threads};
  if (on_codes) binding.output.dtype = *place.encoded;
  if (encoded && !on_codes) {
    binding.codes = binding.result;
    binding.result = nullptr;
  }
  Kernel forward;
  if (!takes_codes || on_codes) {
    forward = std::visit([&](const auto& op) { return op.forward(binding); }, node.op);
  }
  forward = sequence(std::move(operands.decode), std::move(forward));
  if (arithmetic != nullptr) forward = arithmetic->around(id, std::move(forward), binding);
  if (forward) layout.forward.push_back({std::move(forward), i, place.constant});
  if (!place.active || place.open) return;
  operands = operands_of(layout, i, Pass::Backward);
  if (is_view) binding.output = node.type;
  binding.inputs = operands.types;
  binding.operands = operands.values;
  binding.sources = operands.sources;
  binding.encoded = operands.encoded;
  binding.scratch = address(layout, place.backward_scratch, false);
  Kernel backward = std::visit([&](const auto& op) { return op.backward(binding); }, node.op);
  if (!backward) return;
  layout.backward.push_back({sequence(std::move(operands.decode), std::move(backward)), i});
}

void Tape::forward(Mode mode) {
  (void)parameters();
  const SerialLibraries serial;
  step_.mode = options_.schedule.mode_at(mode, step_.number);
  // Weights and activations have changed since the first step, but scales have not in float
  // steps.
  const bool delayed = mode.train && options_.schedule.delay > 0 &&
                       step_.number == static_cast<uint64_t>(options_.schedule.delay);
  if (delayed && step_.mode.quantize && step_.mode.observe) {
    restart_learned_scales(graph(), parameters());
  }
  active_ = &layout_for(step_.mode);
  run_forward();
  ran_ = Ran::Forward;
  report_faults();
  if (mode.train) ++step_.number;
}

bool Tape::Constants::hold_in(const Step& step, std::span<const NodeStatus> statuses) const {
  const bool reads_alone =
      !step.mode.train && !step.mode.observe && !step.mode.batch_statistics;
  return valid && reads_alone && step.mode == mode &&
         std::ranges::equal(enabled, statuses, {}, {}, &NodeStatus::enabled);
}

void Tape::Constants::keep(const Step& step, std::span<const NodeStatus> statuses) {
  valid = true;
  mode = step.mode;
  for (size_t i = 0; i < statuses.size(); ++i) enabled[i] = statuses[i].enabled;
}

void Tape::run_forward() {
  bool skip = constants_.layout == active_ && constants_.hold_in(step_, statuses_);
  ForwardArithmetic* arithmetic = active_->arithmetic.get();
  do {
    if (arithmetic != nullptr) arithmetic->begin(step_);
    for (const Bound& bound : active_->forward) {
      if (!(skip && bound.constant)) run(bound, &NodeTimes::forward);
    }
    skip = false;
  } while (arithmetic != nullptr && arithmetic->repeats());
  constants_.layout = active_;
  constants_.keep(step_, statuses_);
}

void Tape::run(const Bound& bound, int64_t NodeTimes::*time) {
  if (!timing_) return bound.kernel(step_);
  const auto begin = std::chrono::steady_clock::now();
  bound.kernel(step_);
  times_[bound.node].*time +=
      std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
}

void Tape::set_timing(bool on) {
  if (on) times_.assign(statuses_.size(), {});
  timing_ = on;
}

void Tape::report_faults() {
  for (const Bound& bound : active_->forward) {
    Fault& fault = statuses_[bound.node].fault;
    if (fault.text == nullptr) continue;
    const Fault first = fault;
    for (NodeStatus& status : statuses_) status.fault = {};
    ran_ = Ran::Nothing;
    parameters_changed();
    const NodeId id{static_cast<int32_t>(bound.node)};
    fail<GraphError>("{}: {}", graph().describe(id), to_string(first));
  }
}

void Tape::backward() {
  for (NodeId root : options_.roots) {
    const Node& node = graph()[root];
    check_node(root, node.type.elements() == 1,
               "backward without dy needs a scalar root, got {}", node.type);
    dispatch_compute(seed_type(root).dtype, [&]<class T>() {
      const T one = 1;
      seed_gradient(root, std::as_bytes(std::span(&one, 1)), dtype_of<T>);
    });
  }
  run_backward();
}

void Tape::clear_seeds() {
  for (NodeId root : options_.roots) {
    const auto bytes = static_cast<size_t>(seed_type(root).bytes());
    std::memset(address(active(), active().plan.nodes[index_of(root)].gradient, true), 0,
                bytes);
  }
}

void Tape::seed_gradient(NodeId root, std::span<const std::byte> dy, DType dtype) {
  check_node(root, std::ranges::find(options_.roots, root) != options_.roots.end(),
             "is not a root of this tape");
  const TensorType type = seed_type(root);
  check_node(root, type.dtype == dtype, "has a gradient of {}, accessed as {}", type,
             to_string_view(dtype));
  check_node(root, static_cast<int64_t>(dy.size()) == type.bytes(),
             "dy has {} elements, expected {}",
             static_cast<int64_t>(dy.size()) / size_of(dtype), type.elements());
  if (dy.empty()) return;
  std::memcpy(address(active(), active().plan.nodes[index_of(root)].gradient, true), dy.data(),
              dy.size());
}

TensorType Tape::seed_type(NodeId root) const {
  const Node& node = graph()[root];
  return std::visit([&](const auto& op) { return gradient_type(node.type, op.keep()); },
                    node.op);
}

void Tape::run_backward() {
  check(!options_.roots.empty(), "this tape has no roots to start gradients from");
  check(ran_ == Ran::Forward, "backward requires a preceding forward");
  (void)parameters();
  const SerialLibraries serial;
  for (const Bound& bound : active_->backward) run(bound, &NodeTimes::backward);
  ran_ = Ran::Backward;
}

size_t Tape::index_of(NodeId id) const {
  (void)graph()[id];
  return static_cast<size_t>(id.index);
}

void Tape::check_dtype(NodeId id, DType dtype) const {
  check_node(id, graph()[id].type.dtype == dtype, "is {}, accessed as {}", graph()[id].type,
             to_string_view(dtype));
}

std::byte* Tape::input_data(NodeId id, DType dtype) {
  check_node(id, std::holds_alternative<Input>(graph()[id].op), "is not an input");
  check_node(id, main().plan.nodes[index_of(id)].needed, "no output of this tape needs it");
  check_dtype(id, dtype);
  return value_address(main(), id);
}

const std::byte* Tape::value_data(NodeId id, DType dtype) const {
  const NodePlan& place = active().plan.nodes[index_of(id)];
  const bool kept = std::holds_alternative<Input>(graph()[id].op) ||
                    place.value.kind == Place::Kind::Leaf || place.kept;
  check_node(id, kept && place.needed, "is not an output of this tape");
  check_dtype(id, dtype);
  return value_address(active(), id);
}

const std::byte* Tape::input_gradient_data(NodeId id, DType dtype) const {
  check_node(id, std::holds_alternative<Input>(graph()[id].op), "is not an input");
  const auto& asked = options_.input_gradients;
  check_node(id, std::ranges::find(asked, id) != asked.end(),
             "has no gradient; ask for it in TapeOptions::input_gradients");
  check_dtype(id, dtype);
  check_node(id, ran_ == Ran::Backward,
             "its gradient is available after a backward, until the next forward");
  return address(active(), active().plan.nodes[index_of(id)].gradient, true);
}

double Tape::scalar(NodeId id) const {
  const TensorType& type = graph()[id].type;
  check_node(id, type.elements() == 1 && is_compute(type.dtype),
             "is not a scalar of f32 or f64");
  return dispatch_compute(type.dtype, [&]<class T>() { return double{value<T>(id)[0]}; });
}

std::vector<QParams<double>> Tape::qparams(NodeId id) const {
  check_node(id, is_quantizer(graph()[id].op) && main().plan.nodes[index_of(id)].needed,
             "is not a quantizer of this tape");
  check_node(id, ran_ != Ran::Nothing,
             "no scales are in use: no forward has run, or the last one failed");
  check_node(id, statuses_[index_of(id)].applied,
             "no scales were in use in the last forward: {}",
             step_.mode.quantize ? "its status had enabled = false"
                                 : "the mode, or the schedule, did not quantize");
  const ScaleSource source = scale_source(id);
  const auto channels = static_cast<size_t>(source.channels);
  return dispatch_compute(source.dtype, [&]<class T>() {
    const T* scales = source.scales<T>();
    std::vector<QParams<double>> result(channels);
    for (size_t c = 0; c < channels; ++c) {
      result[c] = {double{scales[c]}, double{scales[channels + c]}};
    }
    return result;
  });
}

int64_t Tape::non_finite() const {
  int64_t count = 0;
  for (const NodeStatus& status : statuses_) count += status.non_finite;
  return count;
}

void Tape::set_step(int64_t step) {
  require<ArgumentError>(step >= 0, "step must be at least 0, got {}", step);
  step_.number = static_cast<uint64_t>(step);
}

void Tape::paint_guards(const Layout& layout) const {
  if (guard_bytes_ <= 0) return;
  std::memset(layout.arena.data(), static_cast<int>(guard_pattern),
              static_cast<size_t>(layout.arena.size()));
}

bool Tape::guards_intact() const {
  for (const auto& layout : layouts_) {
    for (const Lifetime& buffer : layout->plan.buffers) {
      const std::byte* guard = layout->arena.data() + buffer.offset + buffer.bytes;
      if (std::any_of(guard, guard + guard_bytes_,
                      [](std::byte b) { return b != guard_pattern; })) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace qtape
