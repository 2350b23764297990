#include "qtape/model/training/recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "qtape/core/median.h"
#include "qtape/engine/plan.h"
#include "qtape/engine/quantizers.h"
#include "qtape/model/feed.h"

namespace qtape {
namespace {

/// Number of training samples on which codes are counted.
constexpr int64_t counted_samples = 256;

/// Returns the last part of a folder's name, which is the name of the run.
std::string name_of_folder(const std::string& folder) {
  const std::filesystem::path path = std::filesystem::path(folder).lexically_normal();
  return (path.has_filename() ? path.filename() : path.parent_path().filename()).string();
}

/// Creates the folder if necessary. Throws IoError if it cannot be written.
const std::string& made(const std::string& folder) {
  report::require_run_folder(folder);
  return folder;
}

/// Returns the bytes of the arena in use at each time of a step.
std::vector<int64_t> live_bytes(const Tape& tape) {
  std::vector<int64_t> live(2 * static_cast<size_t>(tape.graph().size()));
  for (const Lifetime& each : tape.memory().buffers) {
    const auto last = std::min(static_cast<int64_t>(live.size()) - 1, each.end);
    for (int64_t t = std::max<int64_t>(0, each.begin); t <= last; ++t) {
      live[static_cast<size_t>(t)] += each.bytes;
    }
  }
  return live;
}

report::StepMemory memory_of(const Tape& tape, const Parameters& parameters) {
  report::StepMemory memory{.arena_bytes = tape.memory().arena_bytes, .live = live_bytes(tape)};
  for (const ParameterEntry& each : parameters.entries()) {
    memory.parameter_bytes += each.type.bytes() * (each.trainable() ? 2 : 1);
  }
  const auto peak = std::ranges::max_element(memory.live);
  const auto n = static_cast<std::ptrdiff_t>(tape.graph().size());
  const std::ptrdiff_t time = peak - memory.live.begin();
  const NodeId node{static_cast<int32_t>(time < n ? time : 2 * n - 1 - time)};
  memory.peak_node =
      fmt::format("{} '{}'", name_of(tape.graph()[node].op), tape.graph().name(node));
  return memory;
}

}  // namespace

Recorder::Recorder(const std::string& folder, const Model& model, const data::Dataset& dataset,
                   const Tape& tape, int64_t batch)
    : folder_(made(folder)),
      lock_(report::run_file(folder)),
      model_(model),
      dataset_(dataset),
      tape_(tape) {
  record_.name = name_of_folder(folder);
  record_.batch = batch;
  record_.threads = tape.threads();
  record_.parameters = model.parameters().trainable_elements();
  record_.memory = memory_of(tape, model.parameters());
  for (NodeId id : quantizers(tape.graph())) {
    record_.scales.push_back({.label = tape.graph().name(id)});
  }
}

void Recorder::set_plan(int64_t steps, const Metric& metric) {
  record_.steps = steps;
  if (!metric.measure) return;
  record_.metric = metric.name;
  record_.unit = metric.unit;
  record_.higher_is_better = metric.higher_is_better;
}

void Recorder::resume(int64_t step, std::span<const EpochResult> finished) {
  // Without a record the curves have a gap.
  report::RunRecord before{.batch = record_.batch, .parameters = record_.parameters};
  std::error_code ignored;
  const std::string file = report::run_file(folder_);
  if (std::filesystem::exists(file, ignored)) before = report::read_run(file);
  require<FormatError>(
      before.batch == record_.batch && before.parameters == record_.parameters,
      "{}: expected the record of a run with {} parameters and batches of {}, got {} and {}",
      file, record_.parameters, record_.batch, before.parameters, before.batch);
  std::erase_if(before.epochs, [&](const auto& each) { return each.step > step; });
  record_.step = step;
  record_.loss = before.loss;
  record_.loss.keep(step);
  record_.mean_step_us = before.mean_step_us;
  record_.times = before.times;
  record_.quantizers = before.quantizers;
  while (record_.loss.steps() < step) {
    record_.loss.add(std::numeric_limits<double>::quiet_NaN());
  }
  for (const EpochResult& each : finished) {
    const auto found = std::ranges::find(before.epochs, each.epoch, &report::RunEpoch::epoch);
    record_.epochs.push_back(
        found != before.epochs.end()
            ? *found
            : report::RunEpoch{.epoch = each.epoch, .loss = each.loss, .score = each.score});
  }
  for (report::ScaleCurve& each : record_.scales) {
    const auto found = std::ranges::find(before.scales, each.label, &report::ScaleCurve::label);
    if (found != before.scales.end()) each = *found;
    each.resize(finished.size());
  }
}

void Recorder::add_step(double loss, double microseconds) {
  ++record_.step;
  record_.loss.add(loss);
  ++timed_steps_;
  microseconds_ += microseconds;
}

void Recorder::add_epoch(const EpochResult& epoch, double learning_rate) {
  record_.epochs.push_back({.epoch = epoch.epoch,
                            .step = record_.step,
                            .loss = epoch.loss,
                            .score = epoch.score,
                            .learning_rate = learning_rate});
  add_scales(record_.epochs.size());
  measure_quantizers();
}

void Recorder::add_scales(size_t epochs) {
  const std::vector<NodeId> ids = quantizers(tape_.graph());
  for (size_t i = 0; i < ids.size(); ++i) {
    report::ScaleCurve& curve = record_.scales[i];
    curve.resize(epochs);
    if (!tape_.status(ids[i]).applied) continue;
    std::vector<double> scales;
    for (const auto& each : tape_.qparams(ids[i])) scales.push_back(each.scale);
    const auto [smallest, largest] = std::ranges::minmax(scales);
    curve.smallest.back() = smallest;
    curve.largest.back() = largest;
    curve.middle.back() = median(scales);
  }
}

void Recorder::measure_quantizers() {
  if (record_.scales.empty()) return;
  record_.quantizers.clear();
  try {
    Tape tape(model_.graph().with_batch(record_.batch), tape_.parameters(),
              {.threads = tape_.threads()});
    for (NodeId id : quantizers(tape.graph())) {
      tape.status(id).enabled = tape_.status(id).enabled;
    }
    const int64_t samples = std::max(record_.batch, counted_samples);
    record_.quantizers =
        report::summaries(report_quantizers(tape, batches_of(dataset_, samples)));
  } catch (const Error&) {
    // Quantizers that start at a later step may have no scales yet, which is not an error.
  }
}

void Recorder::add_times() {
  const Graph& graph = tape_.graph();
  const auto times = tape_.times();
  if (timed_steps_ == 0) return;
  record_.mean_step_us = microseconds_ / static_cast<double>(timed_steps_);
  record_.times.clear();
  const double per_step = 1e-3 / static_cast<double>(timed_steps_);
  for (size_t i = 0; i < times.size(); ++i) {
    if (times[i].forward + times[i].backward == 0) continue;
    const std::string op(name_of(graph[NodeId{static_cast<int32_t>(i)}].op));
    auto found = std::ranges::find(record_.times, op, &report::OpTime::op);
    if (found == record_.times.end()) {
      found = record_.times.insert(found, {.op = op});
    }
    found->forward_us += static_cast<double>(times[i].forward) * per_step;
    found->backward_us += static_cast<double>(times[i].backward) * per_step;
  }
}

void Recorder::write(report::RunState state) {
  record_.state = state;
  add_times();
  try {
    report::write_run(folder_, record_);
    failure_.clear();
  } catch (const IoError& error) {
    failure_ = error.what();
  }
}

}  // namespace qtape
