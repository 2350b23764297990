// Runs every entry of the table of ops: values, gradients, rejected operands and integers.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "qtape/engine/quantizers.h"
#include "qtape/ops/op_queries.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/op_trial.h"

namespace qtape::test {
namespace {

/// A leaf as the only node of a tape.
void check_leaf(const OpCase& c, const OpUse& use) {
  const std::string text = to_string(use.op);
  CAPTURE(text);
  Graph graph;
  const NodeId y = graph.add(use.op, {}, "y");
  const TensorType type = graph[y].type;
  const bool is_input = std::holds_alternative<Input>(use.op);
  const bool passes = bool(c.gradient) && is_float(type.dtype);
  Parameters parameters(graph, 1);
  TapeOptions options{.outputs = {y}, .threads = 1};
  if (passes) options.roots = {y};
  if (passes && is_input) options.input_gradients = {y};
  Tape tape(graph, parameters, options);
  Array written{type, random_values(type.elements(), 3, 0, 100)};
  for (double& each : written.values) each = stored(each, type.dtype);
  if (is_input) write_leaf(tape, y, written.values);
  const Array expected = c.value(use, std::span(&written, 1));
  CHECK(expected.type == type);
  tape.forward(use.mode);
  const Memory exact(type.bytes());
  exact.store(type.dtype, expected.values);
  CHECK(value_bytes(tape, y) == exact.bytes());
  if (!passes) return;
  run_backward(tape, y, written);
  exact.store(type.dtype, c.gradient(use, {}, written)[0]);
  CHECK(gradient_bytes(tape, y) == exact.bytes());
}

bool takes_run_dtype(const OpUse& use) {
  return std::ranges::any_of(
      use.operands, [](const Operand& operand) { return !operand.dtype && !operand.scales; });
}

void check_use(const OpCase& c, const OpUse& use, double roundings) {
  if (use.operands.empty()) return check_leaf(c, use);
  for (DType dtype : all_dtypes) {
    const bool taken = std::ranges::count(c.dtypes, dtype) > 0;
    const auto operands = make_operands(use, dtype);
    if (!taken && takes_run_dtype(use)) {
      CHECK_THROWS_AS((void)contract(use.op, types_of(operands)), GraphError);
    }
    if (!taken) continue;
    OpTrial trial(c, use, dtype);
    const std::string text = trial.text();
    CAPTURE(text);
    trial.check_value(roundings);
    trial.check_variants();
    trial.check_gradients();
    trial.check_differences();
    trial.check_tapes();
    if (!takes_run_dtype(use)) return;
  }
}

/// In f32 only: values and gradients, and equal bits for all thread counts and instruction
/// sets.
void check_large(const OpCase& c, const OpUse& use) {
  OpTrial trial(c, use, DType::F32);
  const std::string text = trial.text();
  CAPTURE(text);
  trial.check_value(c.tolerance.value);
  trial.check_variants();
  trial.check_gradients();
}

void check_integers(const IntegerVerdict& verdict) {
  Graph graph;
  const NodeId node = verdict.net(graph);
  Parameters parameters(graph, 1);
  if (verdict.refusal.empty()) {
    settle(graph, parameters, 3);
    CHECK(disagreement(graph, parameters, 3, Effort::Some) == "");
    return;
  }
  for (NodeId id : quantizers(graph)) set_qparams(graph, parameters, id, 0.05);
  CHECK(error_text<GraphError>(
            [&] { (void)convert(graph, parameters, Requantization::SingleRounding); }) ==
        fmt::format("cannot convert 1 node: {}: {}", graph.describe(node), verdict.refusal));
}

}  // namespace

TEST_CASE("op cases: every op has one entry, with an oracle and an integer verdict") {
  const std::vector<OpCase> cases = op_cases();
  std::vector<std::string_view> names;
  for_each_alternative<Op>([&]<class T>() { names.push_back(T::name); });
  for (std::string_view each : names) {
    const std::string name(each);
    CAPTURE(name);
    CHECK(std::ranges::count(cases, each, &OpCase::name) == 1);
  }
  for (const OpCase& c : cases) {
    const std::string name(c.name());
    CAPTURE(name);
    CHECK(bool(c.value));
    REQUIRE(c.integer.has_value());
    CHECK(bool(c.integer->net));
    const bool leaf = slots_of(c.uses[0].op).empty();
    CHECK(c.bench.empty() == leaf);
    // Differences are computed with uniform random numbers.
    const auto smooth = [](const OpUse& use) {
      return std::ranges::any_of(use.operands, [](const Operand& each) {
        return each.fill == Fill::Uniform && each.values.empty();
      });
    };
    const bool passes = std::ranges::any_of(slots_of(c.uses[0].op), &Slot::differentiable);
    CHECK((!passes || c.gradient || std::ranges::any_of(c.uses, smooth)));
    for (const auto& uses : {c.uses, c.exact, c.large, c.bench}) {
      for (const OpUse& use : uses) CHECK(name_of(use.op) == name);
    }
  }
}

TEST_CASE("op cases: values, gradients, memory, threads and instruction sets") {
  for (const OpCase& c : op_cases()) {
    for (const OpUse& use : c.uses) check_use(c, use, c.tolerance.value);
    for (const OpUse& use : c.exact) check_use(c, use, 0);
  }
}

TEST_CASE("op cases: values have the sign that their op says") {
  int64_t checked = 0;
  for (const OpCase& c : op_cases()) {
    const Sign sign = std::visit([]<class X>(const X&) { return sign_of<X>(); }, c.uses[0].op);
    if (sign == Sign::Any) continue;
    for (const OpUse& use : c.uses) {
      const std::string text = to_string(use.op);
      CAPTURE(text);
      const std::vector<Array> operands = make_operands(use, c.dtypes[0]);
      std::vector<Values> values;
      for (const Array& each : operands) {
        values.push_back(each.values);
        if (sign != Sign::Kept) continue;
        for (double& x : values.back()) x = std::fabs(x);
      }
      OpRun run(use.op, types_of(operands), values, {.mode = use.mode});
      for (const double y : run.forward()) {
        CHECK(!(y < 0));
        ++checked;
      }
    }
  }
  CHECK(checked > 1000);
}

TEST_CASE("op cases: large operands, cut anywhere, by any number of threads") {
  for (const OpCase& c : op_cases()) {
    for (const OpUse& use : c.large) check_large(c, use);
    for (const OpUse& use : c.bench) check_large(c, use);
  }
}

TEST_CASE("op cases: operands that do not fit are refused, word for word") {
  for (const OpCase& c : op_cases()) {
    for (const Refusal& refusal : c.refusals) {
      CAPTURE(to_string(refusal.op));
      CHECK(error_text<GraphError>([&] { (void)output_type(refusal.op, refusal.operands); }) ==
            refusal.text);
    }
  }
}

TEST_CASE("op cases: integer programs agree with the op, or refuse it as they should") {
  for (const OpCase& c : op_cases()) {
    const std::string name(c.name());
    CAPTURE(name);
    check_integers(*c.integer);
  }
}

}  // namespace qtape::test
