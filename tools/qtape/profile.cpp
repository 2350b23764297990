#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>

#include "qtape/core/half.h"
#include "qtape/core/median.h"
#include "qtape/core/printable.h"
#include "qtape/core/random.h"
#include "qtape/engine/plan.h"
#include "qtape/engine/serialize.h"
#include "qtape/engine/tape.h"
#include "qtape/integer/core/integer_binding.h"
#include "qtape/integer/training/exact.h"
#include "qtape/model/model.h"
#include "qtape/ops/op_queries.h"
#include "qtape/programs/command_line.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/json_report.h"
#include "qtape/tools/qtape/load_file.h"
#include "qtape/tools/qtape/options.h"

namespace qtape::tool {

/// Arithmetic of a step.
enum class StepArithmetic : uint8_t {
  Float,   ///< quantizers are off
  Values,  ///< fake quantization
  Codes,   ///< fake quantization with products of codes
  Exact    ///< the integer ops that are deployed
};

}  // namespace qtape::tool

namespace qtape {
template <>
inline constexpr auto enum_names<tool::StepArithmetic> =
    std::array<std::string_view, 4>{"Float", "Values", "Codes", "Exact"};
}  // namespace qtape

namespace qtape::tool {

struct ProfileOptions {
  std::string model;
  std::optional<int64_t> batch = std::nullopt;  ///< empty: as stored
  int64_t steps = 50;
  StepArithmetic arithmetic = StepArithmetic::Codes;
  Requantization requantization = Requantization::FloatMultiply;  ///< for Exact
  int threads = default_threads();
  std::string json = {};

  static constexpr auto fields() {
    using O = ProfileOptions;
    return std::tuple{
        setting("batch", &O::batch, "samples per step; by default as stored", {1, 1000000}),
        setting("steps", &O::steps, "steps to measure", {1, 1000000}),
        setting("arithmetic", &O::arithmetic, "arithmetic of the steps"),
        setting("requantization", &O::requantization, "conversion of accumulators to codes"),
        setting("threads", &O::threads, "threads", {1, 1024})};
  }
};

namespace {

/// Number of steps before times count.
constexpr int64_t warm_up = 5;

/// Fills inputs with values between 0 and 1; integers are 0, which is a valid label and index.
void fill_inputs(Tape& tape) {
  for (const NodeId id : ids(tape.graph())) {
    const Node& node = tape.graph()[id];
    const bool used = tape.memory().nodes[at(id)].needed;
    if (!std::holds_alternative<Input>(node.op) || !used) continue;
    const DType dtype = node.type.dtype;
    if (!is_float(dtype)) {
      dispatch_integers(dtype, [&]<class T>() { std::ranges::fill(tape.input<T>(id), T{}); });
      continue;
    }
    const Random random(1, static_cast<uint64_t>(id.index));
    dispatch_float(dtype, [&]<class T>() {
      using Compute = typename Storage<T>::Compute;
      const auto x = tape.input<T>(id);
      for (size_t k = 0; k < x.size(); ++k) {
        x[k] = Storage<T>::store(static_cast<Compute>(random.uniform(k)));
      }
    });
  }
}

Arithmetic arithmetic_of(const ProfileOptions& options) {
  switch (options.arithmetic) {
    case StepArithmetic::Codes:
      return products_of_codes();
    case StepArithmetic::Exact:
      return exact(options.requantization);
    case StepArithmetic::Float:
    case StepArithmetic::Values:
      break;
  }
  return {};
}

/// Returns the bytes of a node's value as the tape holds it.
int64_t held_bytes(const Tape& tape, NodeId id) {
  const auto& codes = tape.memory().nodes[at(id)].encoded;
  const TensorType& type = tape.graph()[id].type;
  return codes ? type.elements() * size_of(*codes) : type.bytes();
}

struct NodeTime {
  std::string node;
  std::string op;
  double forward_us = 0;
  double backward_us = 0;
  double percent = 0;
  int64_t bytes = 0;

  double us() const { return forward_us + backward_us; }
  static constexpr auto fields() {
    using T = NodeTime;
    return std::tuple{field("node", &T::node, "label, or its index"),
                      field("op", &T::op, "name of the op"),
                      field("forward_us", &T::forward_us, "per step"),
                      field("backward_us", &T::backward_us, "per step"),
                      field("share_percent", &T::percent, "of the mean step"),
                      field("bytes", &T::bytes, "of operands and result")};
  }
};

struct ProfileReport {
  bool training = false;
  int64_t batch = 0;
  int64_t steps = 0;
  int64_t threads = 0;
  double step_us = 0;
  int64_t arena_bytes = 0;
  std::vector<NodeTime> nodes;

  static constexpr auto fields() {
    using R = ProfileReport;
    return std::tuple{field("training", &R::training, "forward and backward; false: inference"),
                      field("batch", &R::batch, "samples of a step"),
                      field("steps", &R::steps, "that were measured"),
                      field("threads", &R::threads, "that were used"),
                      field("step_us", &R::step_us, "median"),
                      field("arena_bytes", &R::arena_bytes, "of all activations"),
                      field("nodes", &R::nodes, "by descending time")};
  }
};

/// Returns the share of each node in a mean step of `step_us`.
std::vector<NodeTime> times_of(const Tape& tape, int64_t steps, double step_us) {
  std::vector<NodeTime> nodes;
  const auto times = tape.times();
  const double scale = 1e-3 / static_cast<double>(steps);
  for (size_t i = 0; i < times.size(); ++i) {
    const NodeId id{static_cast<int32_t>(i)};
    const Node& node = tape.graph()[id];
    NodeTime time{.node = tape.graph().name(id),
                  .op = std::string(name_of(node.op)),
                  .forward_us = scale * static_cast<double>(times[i].forward),
                  .backward_us = scale * static_cast<double>(times[i].backward),
                  .bytes = held_bytes(tape, id)};
    if (time.us() == 0) continue;
    time.percent = 100 * time.us() / step_us;
    const std::vector<Slot> slots = slots_of(node.op);
    for (size_t k = 0; k < slots.size(); ++k) {
      if (slots[k].scales == Scales::None) time.bytes += held_bytes(tape, node.operands[k]);
    }
    nodes.push_back(std::move(time));
  }
  std::ranges::sort(nodes, std::greater<>(), &NodeTime::us);
  return nodes;
}

/// Runs steps and returns their times in us; the tape records those of its nodes.
std::vector<double> run_steps(Tape& tape, const ProfileOptions& options, bool training) {
  const bool quantizes = options.arithmetic != StepArithmetic::Float;
  const Mode inference = quantizes ? mode::eval : mode::float_eval;
  const Mode training_mode = quantizes ? mode::qat : mode::float_train;
  std::vector<double> steps;
  for (int64_t step = -warm_up; step < options.steps; ++step) {
    if (step == 0) tape.set_timing(true);
    const auto begin = std::chrono::steady_clock::now();
    tape.forward(training ? training_mode : inference);
    if (training) tape.backward();
    const std::chrono::duration<double, std::micro> time =
        std::chrono::steady_clock::now() - begin;
    if (step >= 0) steps.push_back(time.count());
  }
  return steps;
}

void print(const ProfileReport& report) {
  fmt::print("{:<28} {:<22} {:>11} {:>11} {:>7} {:>12}\n", "node", "op", "forward us",
             "backward us", "share", "bytes");
  for (const NodeTime& each : report.nodes) {
    fmt::print("{:<28} {:<22} {:>11.1f} {:>11.1f} {:>5.1f} % {:>12}\n", printable(each.node),
               each.op, each.forward_us, each.backward_us, each.percent, each.bytes);
  }
  fmt::print("\n{} of {}: median {:.1f} us of {}, {}, {} bytes of arena\n",
             report.training ? "forward and backward" : "inference",
             counted(report.batch, "sample"), report.step_us, counted(report.steps, "step"),
             counted(report.threads, "thread"), report.arena_bytes);
}

}  // namespace

/// Runs training steps of a saved model, or inference if it has no loss, on synthetic inputs,
/// and prints time and memory of each node. The file is not changed.
void profile(const ProfileOptions& options) {
  programs::OutputFiles files;
  files.reads({options.model});
  files.expect_text("--json", options.json);
  SavedModel model = read_model(options.model, files);
  if (options.batch) model.graph = model.graph.with_batch(*options.batch);
  const std::vector<NodeId> roots = model.graph.losses();
  Tape tape(model.graph, model.parameters,
            {.roots = roots, .threads = options.threads, .arithmetic = arithmetic_of(options)});
  fill_inputs(tape);
  std::vector<double> steps = run_steps(tape, options, !roots.empty());
  double mean = 0;
  for (double each : steps) mean += each / static_cast<double>(steps.size());
  const ProfileReport report{.training = !roots.empty(),
                             .batch = model.graph.batch().value_or(1),
                             .steps = options.steps,
                             .threads = options.threads,
                             .step_us = median(steps),
                             .arena_bytes = tape.memory().arena_bytes,
                             .nodes = times_of(tape, options.steps, mean)};
  print(report);
  write_report(files, options.json, report);
  files.require_written();
}

Command add_profile(CLI::App& app) {
  const auto o = std::make_shared<ProfileOptions>();
  CLI::App& profile =
      *app.add_subcommand("profile", "Print the time and the memory of a step by node");
  add_model(profile, o->model);
  add_json(profile, o->json);
  add_settings(profile, *o);
  return {&profile, [o, &profile] {
            programs::refuse_useless(profile, o->arithmetic != StepArithmetic::Exact,
                                     "needs --arithmetic Exact", {"--requantization"});
            qtape::tool::profile(*o);
            return 0;
          }};
}

}  // namespace qtape::tool
