// Every use of every op with its batch divided over two ranks: the bits of one process, or
// refused.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <optional>
#include <set>

#include "qtape/engine/batch_slices.h"
#include "qtape/tests/support/op_trial.h"
#include "qtape/tests/support/thread_ranks.h"

using namespace qtape;
using namespace qtape::test;

namespace {

/// y = op(operands), with samples in some operands and, for floats y, a loss.
struct Divided {
  Graph graph;
  OpUse use;
  std::vector<NodeId> leaves;  // by operand
  std::vector<bool> batched;   // by operand
  NodeId y;
  std::optional<NodeId> loss;
};

constexpr int64_t ranks = 2;

/// Puts the samples of both ranks along axis 0 of operand `only` or else of all operands but
/// states. Throws GraphError if the op does not take such operands. Empty without samples, and
/// for operands that are scales.
std::optional<Divided> divided(OpUse use, std::optional<size_t> only) {
  Divided result{.use = std::move(use)};
  const std::vector<Slot> slots = slots_of(result.use.op);
  std::vector<NodeId> operands;
  for (size_t i = 0; i < slots.size(); ++i) {
    Operand& operand = result.use.operands[i];
    if (slots[i].scales != Scales::None) return std::nullopt;
    const bool state = slots[i].access == Access::ReadWrite;
    const bool batched = !state && (!only || only == i) && operand.shape.rank() > 0;
    result.batched.push_back(batched);
    if (batched) {
      const int64_t rows = std::max<int64_t>(2, operand.shape[0]);
      operand.shape = operand.shape.with(0, ranks * rows);
    }
    const DType dtype = operand.dtype.value_or(DType::F32);
    Op leaf = Input{.dtype = dtype, .shape = operand.shape, .batch = batched};
    if (state) leaf = State{.dtype = dtype, .shape = operand.shape};
    if (slots[i].differentiable && is_compute(dtype) && (state || !batched)) {
      leaf = Parameter{.dtype = dtype, .shape = operand.shape};
    }
    result.leaves.push_back(result.graph.add(leaf, {}, "x" + std::to_string(i)));
  }
  if (!result.graph.batch()) return std::nullopt;
  result.y = result.graph.add(result.use.op, result.leaves, "y");
  if (is_compute(result.graph[result.y].type.dtype)) {
    result.loss = result.graph.add(Mean{}, {result.graph.add(Mul{}, {result.y, result.y})});
  }
  return result;
}

/// Results by name. Values with samples are those of the ranks, one after the other.
using Results = std::map<std::string, Bytes>;

Array rows_of(const Array& whole, const Shards& shards) {
  const auto part = whole.values.size() / static_cast<size_t>(shards.total);
  const auto begin = whole.values.begin() +
                     static_cast<std::ptrdiff_t>(part * static_cast<size_t>(shards.first));
  return {whole.type, Values(begin, begin + static_cast<std::ptrdiff_t>(
                                                part * static_cast<size_t>(shards.count)))};
}

Results run(const Divided& trial, const Shards& shards) {
  const Graph graph = trial.graph.with_batch(*trial.graph.batch() / ranks * shards.count);
  Parameters parameters(graph, 1);
  TapeOptions options{.outputs = {trial.y}, .threads = 1, .shards = shards};
  bool trains = false;
  for (const NodeId leaf : trial.leaves) {
    const Node& node = graph[leaf];
    const bool parameter = std::holds_alternative<Parameter>(node.op);
    trains = trains || parameter;
  }
  trains = trains && trial.loss;
  if (trains) options.roots = {*trial.loss};
  Tape tape(graph, parameters, options);
  const std::vector<Array> values = make_operands(trial.use, DType::F32);
  for (size_t i = 0; i < values.size(); ++i) {
    const Array own = trial.batched[i] ? rows_of(values[i], shards) : values[i];
    write_leaf(tape, trial.leaves[i], own.values);
  }
  tape.forward(trial.use.mode);
  Results results;
  results["y"] = value_bytes(tape, trial.y);
  if (trains) tape.backward();
  for (const ParameterEntry& each : parameters.entries()) {
    results[each.name] = bytes_of(each.value, each.type.bytes());
    if (trains && each.trainable()) {
      results[each.name + " gradient"] = bytes_of(each.gradient, each.type.bytes());
    }
  }
  return results;
}

std::optional<Divided> divided_or_none(const OpUse& use, std::optional<size_t> only) {
  try {
    return divided(use, only);
  } catch (const GraphError&) {
    return std::nullopt;
  }
}

bool is_refused(const Divided& trial) {
  try {
    (void)slice_batch(trial.graph, Shards::alone(ranks));
    return false;
  } catch (const GraphError&) {
    return true;
  }
}

/// Compares two ranks with one process.
void check_divided(const Divided& trial) {
  const Results expected = run(trial, Shards::alone(ranks));
  std::vector<Results> got(ranks);
  ThreadRanks(ranks).run([&](Exchange& exchange) {
    got[static_cast<size_t>(exchange.rank())] = run(trial, Shards::of(ranks, exchange));
  });
  for (const auto& [name, bytes] : expected) {
    const std::string result = name;
    CAPTURE(result);
    if (got[0].at(name).size() == bytes.size()) {
      for (const Results& each : got) CHECK(each.at(name) == bytes);
    } else {
      CHECK(got[0].at(name) + got[1].at(name) == bytes);
    }
  }
}

}  // namespace

TEST_CASE("shards: every op has the bits of one process on two ranks, or is refused") {
  std::set<std::string_view> ops;
  std::set<std::string_view> only_refused;
  int64_t accepted = 0;
  int64_t refused = 0;
  for (const OpCase& c : op_cases()) {
    for (const OpUse& use : c.uses) {
      for (size_t k = 0; k <= use.operands.size(); ++k) {
        const auto only = k < use.operands.size() ? std::optional(k) : std::nullopt;
        const std::optional<Divided> trial = divided_or_none(use, only);
        if (!trial) continue;
        const std::string text =
            to_string(use.op) + " " + to_string(trial->graph[trial->y].type);
        CAPTURE(text);
        CAPTURE(k);
        if (is_refused(*trial)) {
          ++refused;
          only_refused.insert(c.name());
          continue;
        }
        check_divided(*trial);
        ++accepted;
        ops.insert(c.name());
      }
    }
  }
  MESSAGE(accepted, " uses of ", ops.size(), " ops divided, ", refused, " refused");
  std::erase_if(only_refused, [&](std::string_view name) { return ops.contains(name); });
  CHECK(fmt::format("{}", fmt::join(only_refused, " ")) == "Reshape");
  CHECK(accepted > 1700);
}
