#include "qtape/engine/tape.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "qtape/core/float_environment.h"
#include "qtape/core/move_to.h"
#include "qtape/core/out_of_memory.h"
#include "qtape/core/process_limits.h"
#include "qtape/engine/batch_slices.h"
#include "qtape/engine/plan_hooks.h"
#include "qtape/engine/quantizers.h"
#include "qtape/engine/tape_faults.h"
#include "qtape/engine/tape_layout.h"
#include "qtape/kernels/simd/threads.h"
#include "qtape/ops/families/bf16.h"
#include "qtape/ops/op_queries.h"

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

/// Sets learned scales to 0 if their quantizer `observes`: the next step initialises them.
void restart_learned_scales(const Graph& graph, Parameters& parameters, const auto& observes) {
  for (const NodeId id : quantizers(graph)) {
    if (!observes(id)) continue;
    const std::vector<QuantizerOperand> operands = operands_of(graph[id].op);
    if (operands.empty() || !operands[0].trained) continue;
    const ParameterEntry& entry = parameters.at(graph[graph[id].operands[1]].label);
    std::memset(entry.value, 0, static_cast<size_t>(entry.type.bytes()));
  }
}

}  // namespace

Tape::Tape(Tape&&) noexcept = default;
Tape& Tape::operator=(Tape&& other) noexcept { return move_to(*this, std::move(other)); }
Tape::~Tape() = default;

const Plan& Tape::memory() const {
  (void)parameters();
  return main().plan;
}

Tape::Tape(Graph graph, Parameters& parameters, TapeOptions options)
    : Tape(std::move(graph), parameters, std::move(options), PlanHooks{}) {}

Tape::Tape(Graph graph, Parameters& parameters, TapeOptions options, const PlanHooks& hooks)
    : Tape(std::move(graph), ParametersLink(parameters), std::move(options), hooks) {}

Tape::Tape(Graph graph, const Parameters& parameters, TapeOptions options)
    : Tape(std::move(graph), ParametersLink(parameters), std::move(options), PlanHooks{}) {
  reads_only_ = true;
  require<ArgumentError>(options_.roots.empty(),
                         "a tape that only reads its parameters computes no gradients, got {} "
                         "roots",
                         options_.roots.size());
}

Tape::Tape(Graph bound, const ParametersLink& parameters, TapeOptions options,
           const PlanHooks& hooks) try
    : graph_(std::make_shared<const Graph>(std::move(bound))),
      parameters_(parameters),
      options_(with_defaults(std::move(options), *graph_)),
      slices_(std::make_shared<const BatchSlices>(slice_batch(*graph_, options_.shards))),
      guard_bytes_(hooks.guard_bytes),
      share_memory_(hooks.share_memory),
      statuses_(static_cast<size_t>(graph_->size())) {
  const int ranks = options_.shards.ranks();
  if (ranks > 1) rank_faults_ = std::make_unique<RankFaults>(ranks);
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
  if (!options_.roots.empty() && !options_.accumulate_gradients) find_unreached();
} catch (const std::bad_alloc& error) {
  fail_while("binding a tape", {}, error);
}

void Tape::find_unreached() {
  const auto entries = parameters().entries();
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!entries[i].trainable()) continue;
    const auto leaf = graph().find(entries[i].name);
    const bool reached =
        leaf && main().plan.nodes[at(*leaf)].gradient.kind != Place::Kind::None;
    if (!reached) unreached_.push_back(i);
  }
}

const Graph& Tape::graph() const {
  static const Graph none;
  return graph_ ? *graph_ : none;
}

/// The first layout is the one whose values may be held as codes.
void Tape::add_layout(bool encodes) {
  const FloatEnvironment floats;
  auto layout = std::make_unique<Layout>();
  PlanOptions options{.outputs = options_.outputs,
                      .roots = options_.roots,
                      .input_gradients = options_.input_gradients,
                      .accumulate_gradients = options_.accumulate_gradients,
                      .constant_parameters = options_.constant_parameters,
                      .gradient_precision = options_.gradient_precision,
                      .threads = options_.threads,
                      .slices = *slices_};
  if (arithmetic_) layout->arithmetic = arithmetic_(encodes);
  if (layout->arithmetic) {
    std::vector<NodeId> kept = options_.outputs;
    kept.insert(kept.end(), options_.roots.begin(), options_.roots.end());
    options.encoding = layout->arithmetic->encoding(kept, !options_.roots.empty());
    options.companions = layout->arithmetic->companions(kept);
  }
  layout->plan =
      plan(graph(), options, {.share_memory = share_memory_, .guard_bytes = guard_bytes_});
  require_address_space("binding a tape", layout->plan.arena_bytes + binding_bytes);
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

const ExactValue* Tape::integers(NodeId id) const {
  (void)index_of(id);
  return active().arithmetic ? active().arithmetic->find(id) : nullptr;
}

void Tape::forward(Mode mode) {
  (void)parameters();
  require<ArgumentError>(
      !reads_only_ || (!mode.observe && !mode.batch_statistics),
      "this tape only reads its parameters: expected a mode without observers and batch statistics");
  const ComputingThread serial;
  step_.mode = options_.schedule.mode_at(mode, step_.number);
  // Weights and activations have changed since the first step, but scales have not in float
  // steps.
  const bool delayed = mode.train && options_.schedule.delay > 0 &&
                       step_.number == static_cast<uint64_t>(options_.schedule.delay);
  if (delayed && step_.mode.quantize && step_.mode.observe) {
    restart_learned_scales(graph(), parameters(), [&](NodeId id) {
      const NodeStatus& status = statuses_[at(id)];
      return main().plan.nodes[at(id)].needed && status.enabled && status.observing;
    });
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
             "the number of elements of dy is {}, expected {}",
             static_cast<int64_t>(dy.size()) / size_of(dtype), type.elements());
  if (dy.empty()) return;
  std::memcpy(address(active(), active().plan.nodes[index_of(root)].gradient, true), dy.data(),
              dy.size());
}

TensorType Tape::seed_type(NodeId root) const {
  const Node& node = graph()[root];
  return gradient_type(node.type, keep_of(node.op));
}

void Tape::run_backward() {
  check(!options_.roots.empty(), "this tape has no roots to start gradients from");
  check(ran_ == Ran::Forward, "backward requires a preceding forward");
  const auto entries = parameters().entries();
  for (size_t i : unreached_) {
    std::memset(entries[i].gradient, 0, static_cast<size_t>(entries[i].type.bytes()));
  }
  const ComputingThread serial;
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
  constexpr int64_t largest = int64_t{1} << 62;
  require<ArgumentError>(step >= 0 && step <= largest, "step must be in 0..2^62, got {}", step);
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
      if (std::count(guard, guard + guard_bytes_, guard_pattern) != guard_bytes_) return false;
    }
  }
  return true;
}

}  // namespace qtape
