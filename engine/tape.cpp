#include "qtape/engine/tape.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "qtape/engine/plan_hooks.h"
#include "qtape/engine/quantizers.h"
#include "qtape/kernels/simd/threads.h"

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
  if (options.outputs.empty()) {
    options.outputs.assign(graph.outputs().begin(), graph.outputs().end());
  }
  return options;
}

}  // namespace

Tape::Tape(const Graph& graph, Parameters& parameters, TapeOptions options)
    : Tape(graph, parameters, std::move(options), PlanHooks{}) {}

Tape::Tape(const Graph& graph, Parameters& parameters, TapeOptions options,
           const PlanHooks& hooks)
    : graph_(graph),
      parameters_(parameters),
      options_(with_defaults(std::move(options), graph)),
      guard_bytes_(hooks.guard_bytes),
      exact_(options_.arithmetic.make ? options_.arithmetic.make(graph_, options_.threads)
                                      : nullptr),
      plan_(plan(graph_,
                 {.outputs = options_.outputs,
                  .roots = options_.roots,
                  .input_gradients = options_.input_gradients,
                  .accumulate_gradients = options_.accumulate_gradients,
                  .constant_parameters = options_.constant_parameters,
                  .companions = companions()},
                 hooks)),
      arena_(plan_.arena_bytes),
      records_(plan_.record_bytes),
      statuses_(static_cast<size_t>(graph_.size())) {
  step_.seed = options_.seed;
  constants_.enabled.resize(statuses_.size());
  step_.warm_up = static_cast<uint64_t>(options_.schedule.warm_up);
  check_leaves();
  paint_guards();
  bind();
}

void Tape::check_leaves() const {
  for (int32_t i = 0; i < graph_.size(); ++i) {
    const NodeId id{i};
    if (!plan_.nodes[static_cast<size_t>(i)].needed || !is_persistent(graph_[id].op)) continue;
    const ParameterEntry* entry = parameters().find(graph_[id].label);
    check_node(id, entry != nullptr, "the parameters hold nothing of this name");
    check_node(id, entry->type == graph_[id].type, "the parameters hold {}, the graph needs {}",
               entry->type, graph_[id].type);
    check_node(id, entry->trainable() == std::holds_alternative<Parameter>(graph_[id].op),
               "the parameters hold a {} of this name",
               entry->trainable() ? "parameter" : "state");
  }
}

std::byte* Tape::address(const Place& place, bool gradient) const {
  if (place.kind == Place::Kind::Arena) return arena_.data() + place.offset;
  if (place.kind == Place::Kind::None) return nullptr;
  const Node& leaf = graph_[place.leaf];
  if (const auto* constant = std::get_if<Constant>(&leaf.op)) {
    return const_cast<std::byte*>(constant->value.data.data());
  }
  const ParameterEntry& entry = parameters().at(leaf.label);
  return gradient ? entry.gradient : entry.value;
}

std::vector<Companion> Tape::companions() const {
  if (!exact_) return {};
  std::vector<NodeId> kept = options_.outputs;
  kept.insert(kept.end(), options_.roots.begin(), options_.roots.end());
  return exact_->companions(kept);
}

ForwardArithmetic::Lookup Tape::exact_lookup() {
  return {
      .value = [this](NodeId id) { return address(plan_.nodes[index_of(id)].value, false); },
      .companion =
          [this](NodeId id) { return address(plan_.nodes[index_of(id)].companion, false); },
      .scales = [this](NodeId id) { return scale_source(id); },
      .status = [this](NodeId id) { return &statuses_[index_of(id)]; },
      .backward = !options_.roots.empty()};
}

const ExactValue* Tape::integers(NodeId id) const {
  (void)index_of(id);
  return exact_ ? exact_->find(id) : nullptr;
}

void Tape::bind() {
  if (exact_) exact_->bind(exact_lookup());
  for (size_t i = 0; i < plan_.nodes.size(); ++i) {
    if (plan_.nodes[i].needed) bind_node(i);
  }
  std::ranges::reverse(backward_);
}

ScaleSource Tape::scale_source(NodeId id) const {
  const size_t i = index_of(id);
  return {.record = records_.data() + plan_.nodes[i].record,
          .channels = channel_map(graph_, id).channels,
          .dtype = scale_dtype(graph_[graph_[id].operands[0]].type.dtype),
          .status = &statuses_[i]};
}

void Tape::bind_node(size_t i) {
  const NodeId id{static_cast<int32_t>(i)};
  const Node& node = graph_[id];
  const auto slots = std::visit([](const auto& op) { return op.slots(); }, node.op);
  const NodePlan& place = plan_.nodes[i];
  std::vector<TensorType> inputs;
  std::vector<std::byte*> operands;
  std::vector<ScaleSource> sources;
  std::vector<Gradient> gradients;
  for (size_t k = 0; k < node.operands.size(); ++k) {
    const NodePlan& operand = plan_.nodes[static_cast<size_t>(node.operands[k].index)];
    inputs.push_back(graph_[node.operands[k]].type);
    const bool scales = slots[k].scales != Scales::None;
    operands.push_back(scales ? nullptr : address(operand.value, false));
    sources.push_back(scales ? scale_source(node.operands[k]) : ScaleSource{});
    gradients.push_back(
        {place.wanted[k] ? address(operand.gradient, true) : nullptr, place.accumulate[k]});
  }
  Binding binding{.inputs = inputs,
                  .output = node.type,
                  .operands = operands,
                  .sources = sources,
                  .result = address(place.value, false),
                  .dy = address(place.gradient, true),
                  .gradients = gradients,
                  .saved = address(place.saved, false),
                  .scratch = address(place.forward_scratch, false),
                  .record = records_.data() + place.record,
                  .codes = exact_ ? exact_->codes(id) : nullptr,
                  .status = &statuses_[i],
                  .stream = i,
                  .threads = options_.threads};
  std::visit(
      [&](const auto& op) {
        Kernel forward = op.forward(binding);
        if (exact_) forward = exact_->around(id, std::move(forward), binding);
        if (forward) forward_.push_back({std::move(forward), i, place.constant});
        if (!place.active) return;
        binding.scratch = address(place.backward_scratch, false);
        if (Kernel kernel = op.backward(binding)) backward_.push_back({std::move(kernel), i});
      },
      node.op);
}

void Tape::forward(Mode mode) {
  (void)parameters();
  const SerialLibraries serial;
  step_.mode = options_.schedule.mode_at(mode, step_.number);
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
  bool skip = constants_.hold_in(step_, statuses_);
  do {
    if (exact_) exact_->begin(step_);
    for (const Bound& bound : forward_) {
      if (!(skip && bound.constant)) run(bound, &NodeTimes::forward);
    }
    skip = false;
  } while (exact_ && exact_->repeats());
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
  if (on) times_.assign(plan_.nodes.size(), {});
  timing_ = on;
}

void Tape::report_faults() {
  for (const Bound& bound : forward_) {
    Fault& fault = statuses_[bound.node].fault;
    if (fault.text == nullptr) continue;
    const Fault first = fault;
    for (NodeStatus& status : statuses_) status.fault = {};
    ran_ = Ran::Nothing;
    parameters_changed();
    const NodeId id{static_cast<int32_t>(bound.node)};
    fail<GraphError>("{}: {}", graph_.describe(id), to_string(first));
  }
}

void Tape::backward() {
  for (NodeId root : options_.roots) {
    const Node& node = graph_[root];
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
    std::memset(address(plan_.nodes[index_of(root)].gradient, true), 0, bytes);
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
  std::memcpy(address(plan_.nodes[index_of(root)].gradient, true), dy.data(), dy.size());
}

TensorType Tape::seed_type(NodeId root) const {
  const Node& node = graph_[root];
  return std::visit([&](const auto& op) { return gradient_type(node.type, op.keep()); },
                    node.op);
}

void Tape::run_backward() {
  check(!options_.roots.empty(), "this tape has no roots to start gradients from");
  check(ran_ == Ran::Forward, "backward needs a forward before it");
  (void)parameters();
  const SerialLibraries serial;
  for (const Bound& bound : backward_) run(bound, &NodeTimes::backward);
  ran_ = Ran::Backward;
}

size_t Tape::index_of(NodeId id) const {
  (void)graph_[id];
  return static_cast<size_t>(id.index);
}

void Tape::check_dtype(NodeId id, DType dtype) const {
  check_node(id, graph_[id].type.dtype == dtype, "is {}, accessed as {}", graph_[id].type,
             to_string_view(dtype));
}

std::byte* Tape::input_data(NodeId id, DType dtype) {
  check_node(id, std::holds_alternative<Input>(graph_[id].op), "is not an input");
  check_node(id, plan_.nodes[index_of(id)].needed, "no output of this tape needs it");
  check_dtype(id, dtype);
  return address(plan_.nodes[index_of(id)].value, false);
}

const std::byte* Tape::value_data(NodeId id, DType dtype) const {
  const NodePlan& place = plan_.nodes[index_of(id)];
  const bool kept = std::holds_alternative<Input>(graph_[id].op) ||
                    place.value.kind == Place::Kind::Leaf || place.kept;
  check_node(id, kept && place.needed, "is not an output of this tape");
  check_dtype(id, dtype);
  return address(place.value, false);
}

const std::byte* Tape::input_gradient_data(NodeId id, DType dtype) const {
  check_node(id, std::holds_alternative<Input>(graph_[id].op), "is not an input");
  const auto& asked = options_.input_gradients;
  check_node(id, std::ranges::find(asked, id) != asked.end(),
             "has no gradient; ask for it in TapeOptions::input_gradients");
  check_dtype(id, dtype);
  check_node(id, ran_ == Ran::Backward,
             "its gradient is there after a backward, until the next forward");
  return address(plan_.nodes[index_of(id)].gradient, true);
}

double Tape::scalar(NodeId id) const {
  const TensorType& type = graph_[id].type;
  check_node(id, type.elements() == 1 && is_compute(type.dtype),
             "is not a scalar of f32 or f64");
  return dispatch_compute(type.dtype, [&]<class T>() { return double{value<T>(id)[0]}; });
}

std::vector<QParams<double>> Tape::qparams(NodeId id) const {
  check_node(id, is_quantizer(graph_[id].op) && plan_.nodes[index_of(id)].needed,
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

void Tape::paint_guards() {
  if (guard_bytes_ <= 0) return;
  std::memset(arena_.data(), static_cast<int>(guard_pattern),
              static_cast<size_t>(arena_.size()));
}

bool Tape::guards_intact() const {
  for (const Lifetime& buffer : plan_.buffers) {
    const std::byte* guard = arena_.data() + buffer.offset + buffer.bytes;
    if (std::any_of(guard, guard + guard_bytes_,
                    [](std::byte b) { return b != guard_pattern; })) {
      return false;
    }
  }
  return true;
}

}  // namespace qtape
