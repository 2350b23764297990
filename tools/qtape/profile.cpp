#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "qtape/core/half.h"
#include "qtape/core/median.h"
#include "qtape/core/printable.h"
#include "qtape/core/random.h"
#include "qtape/engine/serialize.h"
#include "qtape/engine/tape.h"
#include "qtape/integer/exact.h"
#include "qtape/integer/integer_binding.h"
#include "qtape/model/model.h"
#include "qtape/tools/qtape/commands.h"

namespace qtape::tool {
namespace {

/// Steps before times count.
constexpr int64_t warm_up = 5;

/// Values between 0 and 1; integers are 0, which every label and index may be.
void fill_inputs(Tape& tape) {
  for (int32_t i = 0; i < tape.graph().size(); ++i) {
    const NodeId id{i};
    const Node& node = tape.graph()[id];
    const bool used = tape.memory().nodes[static_cast<size_t>(i)].needed;
    if (!std::holds_alternative<Input>(node.op) || !used) continue;
    const DType dtype = node.type.dtype;
    if (!is_float(dtype)) {
      dispatch_integers(dtype, [&]<class T>() { std::ranges::fill(tape.input<T>(id), T{}); });
      continue;
    }
    const Random random(1, static_cast<uint64_t>(i));
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

/// Bytes of a node's value as the tape holds it.
int64_t held_bytes(const Tape& tape, NodeId id) {
  const auto& codes = tape.memory().nodes[static_cast<size_t>(id.index)].encoded;
  const TensorType& type = tape.graph()[id].type;
  return codes ? type.elements() * size_of(*codes) : type.bytes();
}

struct Row {
  NodeId id;
  double forward = 0;   // us of a step
  double backward = 0;  // us of a step
  int64_t bytes = 0;    // of operands and result
};

std::vector<Row> rows_of(const Tape& tape, int64_t steps) {
  std::vector<Row> rows;
  const auto times = tape.times();
  for (size_t i = 0; i < times.size(); ++i) {
    Row row{
        .id = NodeId{static_cast<int32_t>(i)},
        .forward = 1e-3 * static_cast<double>(times[i].forward) / static_cast<double>(steps),
        .backward = 1e-3 * static_cast<double>(times[i].backward) / static_cast<double>(steps)};
    if (row.forward + row.backward == 0) continue;
    row.bytes = held_bytes(tape, row.id);
    const Node& node = tape.graph()[row.id];
    const auto slots = std::visit([](const auto& op) { return op.slots(); }, node.op);
    for (size_t k = 0; k < slots.size(); ++k) {
      if (slots[k].scales == Scales::None) row.bytes += held_bytes(tape, node.operands[k]);
    }
    rows.push_back(row);
  }
  std::ranges::sort(rows, std::greater<>(),
                    [](const Row& row) { return row.forward + row.backward; });
  return rows;
}

void print_rows(const Tape& tape, const std::vector<Row>& rows, double step) {
  fmt::print("{:<28} {:<22} {:>11} {:>11} {:>7} {:>12}\n", "node", "op", "forward us",
             "backward us", "share", "bytes");
  for (const Row& row : rows) {
    fmt::print("{:<28} {:<22} {:>11.1f} {:>11.1f} {:>5.1f} % {:>12}\n",
               printable(tape.graph().name(row.id)), name_of(tape.graph()[row.id].op),
               row.forward, row.backward, 100 * (row.forward + row.backward) / step, row.bytes);
  }
}

}  // namespace

void profile(const ProfileOptions& options) {
  SavedModel model = load_model(options.model);
  if (options.batch) model.graph = model.graph.with_batch(*options.batch);
  const std::vector<NodeId> roots = losses(model.graph);
  const bool quantizes = options.arithmetic != StepArithmetic::Float;
  const Mode training = quantizes ? mode::qat : mode::float_train;
  const Mode inference = quantizes ? mode::eval : mode::float_eval;
  Tape tape(model.graph, model.parameters,
            {.roots = roots, .threads = options.threads, .arithmetic = arithmetic_of(options)});
  fill_inputs(tape);
  std::vector<double> steps;
  for (int64_t step = -warm_up; step < options.steps; ++step) {
    if (step == 0) tape.set_timing(true);
    const auto begin = std::chrono::steady_clock::now();
    tape.forward(roots.empty() ? inference : training);
    if (!roots.empty()) tape.backward();
    const std::chrono::duration<double, std::micro> time =
        std::chrono::steady_clock::now() - begin;
    if (step >= 0) steps.push_back(time.count());
  }
  double sum = 0;
  for (double each : steps) sum += each;
  const double mean = sum / static_cast<double>(steps.size());
  print_rows(tape, rows_of(tape, options.steps), mean);
  fmt::print(
      "\n{} of {} samples: median {:.1f} us of {} steps, {} threads, {} bytes of arena\n",
      roots.empty() ? "inference" : "forward and backward", model.graph.batch().value_or(1),
      median(steps), options.steps, options.threads, tape.memory().arena_bytes);
}

}  // namespace qtape::tool
