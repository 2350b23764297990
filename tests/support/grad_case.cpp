#include "qtape/tests/support/grad_case.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "qtape/core/random.h"
#include "qtape/engine/plan_hooks.h"
#include "qtape/engine/print.h"

namespace qtape::test {
namespace {

/// A graph around one op whose differentiable operands are parameters, but for `fixed`, an
/// input: without a gradient, or asked for it.
struct Bench {
  const GradCase& grad_case;
  int fixed;
  Graph graph;
  std::vector<NodeId> operands;
  NodeId y;
  Parameters parameters;
  Tape tape;

  static Graph build(const GradCase& c, int fixed) {
    Graph graph;
    std::vector<NodeId> ids;
    const auto slots = std::visit([](const auto& op) { return op.slots(); }, c.op);
    for (size_t i = 0; i < c.operands.size(); ++i) {
      const Operand& o = c.operands[i];
      const std::string label = "x" + std::to_string(i);
      Op leaf = Parameter{.dtype = o.dtype, .shape = o.shape};
      if (o.state) leaf = State{.dtype = o.dtype, .shape = o.shape};
      const bool is_fixed = static_cast<int>(i) == fixed;
      if (is_fixed && slots[i].access == Access::ReadWrite) {
        leaf = State{.dtype = o.dtype, .shape = o.shape};
      } else if (o.dtype == DType::S32 || is_fixed) {
        leaf = Input{.dtype = o.dtype, .shape = o.shape, .batch = false};
      }
      ids.push_back(graph.add(leaf, {}, label));
      if (slots[i].scales == Scales::One) ids[i] = graph.add(FakeQuantize{}, {ids[i]});
      if (slots[i].scales == Scales::OneOrEach) {
        ids[i] = graph.add(FakeQuantize{.axis = 0}, {ids[i]});
      }
    }
    const NodeId y = graph.add(c.op, ids, "y");
    graph.set_outputs({y});
    return graph;
  }

  static std::vector<NodeId> asked(const Graph& graph, int fixed, bool ask) {
    if (!ask) return {};
    return {graph.at("x" + std::to_string(fixed))};
  }

  Bench(const GradCase& c, int fixed_operand, bool share, bool accumulate, bool ask = false)
      : grad_case(c),
        fixed(fixed_operand),
        graph(build(c, fixed_operand)),
        y(graph.at("y")),
        parameters(graph, 1),
        tape(graph, parameters,
             {.outputs = {y},
              .roots = {y},
              .input_gradients = asked(graph, fixed, ask),
              .threads = 1,
              .seed = 5,
              .accumulate_gradients = accumulate},
             PlanHooks{.share_memory = share, .guard_bytes = share ? 0 : 64}) {
    for (size_t i = 0; i < c.operands.size(); ++i) {
      operands.push_back(graph.at("x" + std::to_string(i)));
      fill(i);
    }
  }

  std::span<double> values(size_t i) {
    const NodeId id = operands[i];
    if (is_persistent(graph[id].op)) return parameters.at(graph[id].label).values<double>();
    return tape.input<double>(id);
  }

  void fill(size_t i) {
    const Operand& o = grad_case.operands[i];
    const Random random(17, i);
    const auto draw = [&](size_t k) { return o.low + (o.high - o.low) * random.uniform(k); };
    if (o.dtype == DType::S32) {
      const auto labels = tape.input<int32_t>(operands[i]);
      for (size_t k = 0; k < labels.size(); ++k) {
        labels[k] = static_cast<int32_t>(std::floor(draw(k)));
      }
    } else if (o.state) {
      std::ranges::fill(parameters.at(graph[operands[i]].label).values<double>(), o.high);
    } else {
      const auto x = values(i);
      for (size_t k = 0; k < x.size(); ++k) x[k] = draw(k);
    }
  }

  std::vector<double> upstream() const {
    const Random random(23, 0);
    std::vector<double> dy(static_cast<size_t>(graph[y].type.elements()));
    for (size_t k = 0; k < dy.size(); ++k) dy[k] = 2 * random.uniform(k) - 1;
    return dy;
  }

  /// dy . y, with the random numbers of the first step.
  double objective() {
    tape.set_step(0);
    tape.forward(grad_case.mode);
    const auto value = tape.value<double>(y);
    const auto dy = upstream();
    double sum = 0;
    for (size_t k = 0; k < value.size(); ++k) sum += dy[k] * value[k];
    return sum;
  }

  void run() {
    tape.set_step(0);
    tape.forward(grad_case.mode);
    tape.backward(y, std::span<const double>(upstream()));
  }

  std::vector<double> gradient(size_t i) const {
    if (static_cast<int>(i) == fixed) {
      const auto g = tape.input_gradient<double>(operands[i]);
      return {g.begin(), g.end()};
    }
    const auto g = parameters.at(graph[operands[i]].label).gradients<double>();
    return {g.begin(), g.end()};
  }
};

void check_against_differences(Bench& bench, size_t i) {
  bench.run();
  const std::vector<double> analytic = bench.gradient(i);
  const auto x = bench.values(i);
  for (size_t k = 0; k < x.size(); ++k) {
    const double step = 1e-6 * std::max(1.0, std::fabs(x[k]));
    const double center = x[k];
    x[k] = center + step;
    const double above = bench.objective();
    x[k] = center - step;
    const double below = bench.objective();
    x[k] = center;
    const double numeric = (above - below) / (2 * step);
    CAPTURE(i);
    CAPTURE(k);
    CHECK(analytic[k] == doctest::Approx(numeric).epsilon(2e-7).scale(1));
  }
}

void check_accumulation(const GradCase& c, size_t i, const std::vector<double>& expected) {
  Bench bench(c, -1, false, true);
  for (double& each : bench.parameters.at("x" + std::to_string(i)).gradients<double>())
    each = 0.5;
  bench.run();
  const std::vector<double> got = bench.gradient(i);
  for (size_t k = 0; k < got.size(); ++k) {
    CHECK(got[k] == doctest::Approx(0.5 + expected[k]).epsilon(1e-14));
  }
}

/// Another operand's missing gradient changes no bit of this one's, and nothing is written
/// outside.
void check_unwanted(const GradCase& c, size_t i, size_t other,
                    const std::vector<double>& expected) {
  Bench bench(c, static_cast<int>(other), false, false);
  bench.run();
  CHECK(bench.gradient(i) == expected);
  CHECK(bench.tape.guards_intact());
}

/// An input that is asked for its gradient gets the bits that a parameter gets, also where
/// parameters accumulate.
void check_input(const GradCase& c, size_t i, const std::vector<double>& expected) {
  for (const bool accumulate : {false, true}) {
    Bench bench(c, static_cast<int>(i), accumulate, accumulate, true);
    for (int repeat = 0; repeat < 2; ++repeat) bench.run();
    CHECK(bench.gradient(i) == expected);
    CHECK(bench.tape.guards_intact());
  }
}

bool is_trained(const GradCase& c, size_t i) {
  const auto slots = std::visit([](const auto& op) { return op.slots(); }, c.op);
  return slots[i].differentiable && c.operands[i].dtype != DType::S32 && !c.operands[i].state;
}

bool is_written(const GradCase& c, size_t i) {
  const auto slots = std::visit([](const auto& op) { return op.slots(); }, c.op);
  return slots[i].access == Access::ReadWrite;
}

}  // namespace

void check_grad_case(const GradCase& c) {
  const std::string op_text = to_string(c.op);
  CAPTURE(op_text);
  for (size_t i = 0; i < c.operands.size(); ++i) {
    if (!is_trained(c, i)) continue;
    Bench bench(c, -1, false, false);
    check_against_differences(bench, i);
    bench.run();
    CHECK(bench.tape.guards_intact());
    const std::vector<double> expected = bench.gradient(i);
    Bench shared(c, -1, true, false);
    shared.run();
    CHECK(shared.gradient(i) == expected);
    check_accumulation(c, i, expected);
    if (!is_written(c, i)) check_input(c, i, expected);
    for (size_t other = 0; other < c.operands.size(); ++other) {
      if (other != i && is_trained(c, other)) check_unwanted(c, i, other, expected);
    }
  }
}

}  // namespace qtape::test
