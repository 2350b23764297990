#include "qtape/calibrate/calibration.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "qtape/calibrate/observer.h"
#include "qtape/core/float_environment.h"
#include "qtape/core/half.h"
#include "qtape/core/out_of_memory.h"
#include "qtape/core/pattern.h"
#include "qtape/core/printable.h"
#include "qtape/engine/constants.h"
#include "qtape/engine/quantizers.h"
#include "qtape/kernels/quantize/learned_start.h"

namespace qtape {
namespace {

/// A quantizer under calibration, with one observer per candidate method.
struct Observed {
  NodeId id;
  NodeId x;
  ChannelMap map;
  bool constant = false;  // x is equal in every batch
  std::vector<Observer> observers;
};

/// Returns the quantizers with states, except those whose labels are in `keep`.
std::vector<NodeId> calibratable(const Graph& graph, const std::vector<std::string>& keep) {
  const std::vector<NodeId> all = quantizers(graph);
  for (const std::string& label : keep) {
    const bool known =
        std::ranges::any_of(all, [&](NodeId id) { return graph.name(id) == label; });
    require<ArgumentError>(known, "expected labels of quantizers to keep, got '{}'",
                           printable(label));
  }
  std::vector<NodeId> found;
  bool any = false;
  for (NodeId id : all) {
    const std::vector<NodeId>& operands = graph[id].operands;
    const bool settable = std::all_of(operands.begin() + 1, operands.end(), [&](NodeId each) {
      return is_persistent(graph[each].op);
    });
    if (operands.size() == 1 || !settable) continue;
    any = true;
    if (std::ranges::find(keep, graph.name(id)) == keep.end()) found.push_back(id);
  }
  check(any, "the graph has no quantizers with states to calibrate");
  check(!found.empty(), "there is nothing to calibrate: all quantizers with states are kept");
  return found;
}

/// Observers of several methods on every quantizer of a graph that can be calibrated.
class Observation {
 public:
  /// `methods_of(id, constant)` returns the methods to try.
  template <class MethodsOf>
  Observation(const Tape& tape, const std::vector<std::string>& keep,
              const MethodsOf& methods_of)
      : graph_(tape.graph()), keeps_(!keep.empty()) {
    const std::vector<bool> constant = constant_nodes(graph_);
    for (NodeId id : calibratable(graph_, keep)) {
      Observed each{.id = id,
                    .x = graph_[id].operands[0],
                    .map = channel_map(graph_, id),
                    .observers = {}};
      each.constant = constant[at(each.x)];
      during("calibrating", graph_.describe(id), [&] {
        for (const ObserverMethod& method : methods_of(id, each.constant)) {
          naming<ArgumentError>(graph_.describe(id), [&] {
            each.observers.emplace_back(method, grid_of(graph_, id), each.map.channels);
          });
        }
      });
      observed_.push_back(std::move(each));
    }
  }

  std::vector<Observed>& nodes() { return observed_; }
  int64_t batch_count() const { return batch_count_; }

  /// Runs one pass over all batches, in float; quantizers that are kept quantize, as what
  /// follows them is computed from their values.
  void run(Tape& tape, const BatchSource& batches,
           const std::function<void(const CalibrationProgress&)>& on_batch, int64_t stages) {
    TapeOptions options{.threads = tape.threads()};
    for (const Observed& each : observed_) options.outputs.push_back(each.x);
    // Batches are fed to inputs, which quantizers of constants alone do not need.
    if (std::ranges::all_of(observed_, &Observed::constant)) {
      std::ranges::copy(graph_.answers(), std::back_inserter(options.outputs));
    }
    Tape values(graph_, tape.parameters(), std::move(options));
    for (const Observed& each : observed_) values.status(each.id).enabled = false;
    const Mode mode = keeps_ ? mode::eval : mode::float_eval;
    int64_t index = 0;
    for (; batches(values, index); ++index) {
      values.forward(mode);
      for (Observed& each : observed_) {
        if (index == 0 || !each.constant) observe(values, each);
      }
      if (on_batch) on_batch({"observe", index + 1, 0, stages});
    }
    require<ArgumentError>(index > 0, "calibration needs at least one batch, got none");
    batch_count_ = index;
    require_calibrated();
  }

 private:
  void observe(const Tape& values, Observed& each) {
    dispatch_float(graph_[each.x].type.dtype, [&]<class S>() {
      const std::span<const S> x = values.value<S>(each.x);
      if constexpr (std::is_same_v<S, float> || std::is_same_v<S, double>) {
        for (Observer& observer : each.observers) observer.observe(x, each.map);
      } else {
        widened_.resize(x.size());
        std::ranges::transform(x, widened_.begin(), [](S v) { return Storage<S>::load(v); });
        const std::span<const float> wide = widened_;
        for (Observer& observer : each.observers) observer.observe(wide, each.map);
      }
    });
  }

  void require_calibrated() const {
    for (const Observed& each : observed_) {
      for (const Observer& observer : each.observers) {
        try {
          observer.require_calibrated();
        } catch (const GraphError& error) {
          fail<GraphError>("{}: {}", graph_.describe(each.id), error.what());
        }
      }
    }
  }

  const Graph& graph_;
  bool keeps_;
  std::vector<Observed> observed_;
  std::vector<float> widened_;
  int64_t batch_count_ = 0;
};

/// Choice of an observer: scales and zero points, or ranges. Making it searches histograms.
struct Chosen {
  explicit Chosen(const Observer& observer) {
    if (detail::gives_qparams(observer.method())) {
      scales = observer.qparams();
    } else {
      ranges = observer.ranges();
    }
  }
  std::vector<QParams<double>> scales = {};
  std::vector<ValueRange<double>> ranges = {};
};

/// Sets the states of one quantizer.
void apply(Tape& tape, NodeId id, const Chosen& chosen) {
  if (chosen.ranges.empty()) {
    set_qparams(tape.graph(), tape.parameters(), id, chosen.scales);
  } else {
    set_ranges(tape.graph(), tape.parameters(), id, chosen.ranges);
  }
  tape.parameters_changed();
}

NodeCalibration result_of(Tape& tape, NodeId id, const Observer& observer) {
  return {id, tape.graph().name(id), observer.method(),
          qparams(tape.graph(), tape.parameters(), id), observer.non_finite()};
}

void check_patterns(const Graph& graph, const CalibrationOptions& options) {
  std::vector<std::string> names;
  for (const NodeId id : calibratable(graph, options.keep)) names.push_back(graph.name(id));
  for (size_t k = 0; k < options.by_name.size(); ++k) {
    const PatternUse use = pattern_use<MethodChoice>(options.by_name, k, names);
    require<ArgumentError>(use == PatternUse::Used, "pattern '{}' matches {}",
                           printable(options.by_name[k].pattern),
                           use == PatternUse::Preceded ? "only quantizers of preceding patterns"
                                                       : "no quantizer with states");
  }
}

ObserverMethod method_for(const CalibrationOptions& options, const Graph& graph, NodeId id,
                          bool constant) {
  for (const MethodChoice& choice : options.by_name) {
    if (matches(choice.pattern, graph.name(id))) return choice.method;
  }
  if (constant && options.constant_method) return *options.constant_method;
  return options.method.value_or(default_method(graph[id].op));
}

/// Float outputs of a graph without quantizers, and the error of quantized outputs.
class OutputError {
 public:
  OutputError(Tape& tape, const BatchSource& batches, int64_t batch_count)
      : batches_(batches),
        batch_count_(batch_count),
        tape_(tape.graph(), tape.parameters(),
              {.outputs = tape.graph().answers(), .threads = tape.threads()}) {
    for (NodeId id : tape_.graph().answers()) {
      const TensorType& type = tape_.graph()[id].type;
      if (is_compute(type.dtype)) outputs_.push_back(id);
    }
    check(!outputs_.empty(), "the graph has no f32 or f64 outputs to compare");
    int64_t count = 0;
    for (; count < batch_count_ && batches_(tape_, count); ++count) {
      tape_.forward(mode::float_eval);
      each_value([&](double value) { expected_.push_back(value); });
    }
    require_same_batches(count);
  }

  /// Sum of squared differences over all batches.
  double measure(const std::function<void(int64_t batch)>& on_batch) {
    double sum = 0;
    size_t next = 0;
    int64_t count = 0;
    for (; count < batch_count_ && batches_(tape_, count); ++count) {
      tape_.forward(mode::eval);
      each_value([&](double value) {
        const double difference = value - expected_[next++];
        sum += difference * difference;
      });
      on_batch(count + 1);
    }
    require_same_batches(count);
    return std::isnan(sum) ? std::numeric_limits<double>::infinity() : sum;
  }

 private:
  void require_same_batches(int64_t count) const {
    require<ArgumentError>(
        count == batch_count_,
        "every pass needs the same batches: the first had {}, a later one had {}", batch_count_,
        count);
  }

  template <class Visit>
  void each_value(const Visit& visit) const {
    for (NodeId id : outputs_) {
      dispatch_compute(tape_.graph()[id].type.dtype, [&]<class T>() {
        for (T value : tape_.value<T>(id)) visit(double{value});
      });
    }
  }

  const BatchSource& batches_;
  int64_t batch_count_;
  Tape tape_;
  std::vector<NodeId> outputs_;
  std::vector<double> expected_;
};

/// Values of all states, which are restored if an error occurs.
class SavedStates {
 public:
  SavedStates(Tape& tape, const std::vector<Observed>& nodes) : parameters_(tape.parameters()) {
    for (const Observed& each : nodes) {
      const std::vector<NodeId>& operands = tape.graph()[each.id].operands;
      for (size_t i = 1; i < operands.size(); ++i) {
        const std::string& label = tape.graph()[operands[i]].label;
        saved_.emplace_back(label, parameters_.get(label));
      }
    }
  }
  SavedStates(const SavedStates&) = delete;
  SavedStates& operator=(const SavedStates&) = delete;
  ~SavedStates() {
    for (const auto& [label, tensor] : saved_) {
      std::ranges::copy(tensor.data, parameters_.at(label).value);
    }
  }
  void keep_new() { saved_.clear(); }

 private:
  Parameters& parameters_;
  std::vector<std::pair<std::string, Tensor>> saved_;
};

/// Returns the index of the choice with the smallest error of the outputs. Calls `on_batch`
/// after each batch.
size_t best_of(Tape& tape, NodeId id, const std::vector<Chosen>& choices, OutputError& error,
               const auto& on_batch) {
  size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < choices.size(); ++i) {
    apply(tape, id, choices[i]);
    const double sum = error.measure([&](int64_t) { on_batch(); });
    if (sum < least) {
      least = sum;
      best = i;
    }
  }
  return best;
}

}  // namespace

ObserverMethod default_method(const Op& quantizer) {
  if (const auto* limited = std::get_if<FakeQuantizePACT>(&quantizer)) {
    // A limit at the largest value would hardly move: only larger values have a gradient.
    if (kernels::starts_by_magnitude(grid_of(*limited).limits)) return Mse{};
  }
  const auto* learned = std::get_if<FakeQuantizeLSQ>(&quantizer);
  if (learned == nullptr) return MinMax{};
  if (!kernels::starts_by_magnitude(grid_of(*learned).limits)) return MinMax{};
  return Lsq{};
}

std::vector<NodeCalibration> calibrate(Tape& tape, const BatchSource& batches,
                                       const CalibrationOptions& options) {
  require<ArgumentError>(batches != nullptr, "expected batches, got an empty function");
  check_patterns(tape.graph(), options);
  const FloatEnvironment floats;
  Observation observation(tape, options.keep, [&](NodeId id, bool constant) {
    return std::vector<ObserverMethod>{method_for(options, tape.graph(), id, constant)};
  });
  observation.run(tape, batches, options.on_batch, 1);
  SavedStates saved(tape, observation.nodes());
  std::vector<NodeCalibration> results;
  for (const Observed& each : observation.nodes()) {
    apply(tape, each.id, Chosen(each.observers[0]));
    results.push_back(result_of(tape, each.id, each.observers[0]));
  }
  saved.keep_new();
  return results;
}

std::vector<NodeCalibration> search_calibration(
    Tape& tape, const BatchSource& batches, const std::vector<ObserverMethod>& candidates,
    const std::function<void(const CalibrationProgress&)>& on_batch,
    const std::vector<std::string>& keep) {
  const FloatEnvironment floats;
  require<ArgumentError>(batches != nullptr, "expected batches, got an empty function");
  require<ArgumentError>(!candidates.empty(), "the search needs candidates, got none");
  Observation observation(tape, keep, [&](NodeId, bool) { return candidates; });
  const auto stages = static_cast<int64_t>(observation.nodes().size()) + 1;
  observation.run(tape, batches, on_batch, stages);
  SavedStates saved(tape, observation.nodes());
  std::vector<std::vector<Chosen>> chosen;  // by quantizer and candidate
  for (const Observed& each : observation.nodes()) {
    chosen.emplace_back(each.observers.begin(), each.observers.end());
    apply(tape, each.id, chosen.back()[0]);
  }
  OutputError error(tape, batches, observation.batch_count());
  std::vector<NodeCalibration> results;
  for (const Observed& each : observation.nodes()) {
    const std::vector<Chosen>& own = chosen[results.size()];
    const int64_t stage = std::ssize(results) + 1;
    int64_t done = 0;
    const size_t best = best_of(tape, each.id, own, error, [&] {
      if (on_batch) on_batch({tape.graph().name(each.id), ++done, stage, stages});
    });
    apply(tape, each.id, own[best]);
    results.push_back(result_of(tape, each.id, each.observers[best]));
  }
  saved.keep_new();
  return results;
}

}  // namespace qtape
