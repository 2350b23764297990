// Gradients of integer codes in plans and tapes: their paths and their memory.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "qtape/engine/plan.h"
#include "qtape/engine/plan_hooks.h"
#include "qtape/engine/tape.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/small_nets.h"

using namespace qtape;
using test::error_text;

namespace {

constexpr int64_t count = 1000;
constexpr double x_scale = 0.25;  // scale of codes in -7..7
constexpr double y_scale = 0.5;

/// x (Parameter) -> Quantize -> Dequantize to `dtype`, with separate scales.
struct Chain {
  Graph graph;
  NodeId codes;
  NodeId y;
  NodeId scale;  // for another Dequantize to `dtype`

  Chain(DType x_dtype, DType dtype) {
    const NodeId x = graph.add(Parameter{.dtype = x_dtype, .shape = {count}}, {}, "x");
    const auto state = [&](DType type, double value, const char* label) {
      return graph.add(State{.dtype = type, .shape = {1}, .value = value}, {}, label);
    };
    const NodeId from = state(x_dtype, x_scale, "x.scale");
    const DType wide = dtype == DType::F64 ? DType::F64 : DType::F32;
    scale = state(wide, y_scale, "y.scale");
    codes = graph.add(Quantize{.bits = 4}, {x, from}, "codes");
    y = graph.add(Dequantize{.dtype = dtype}, {codes, scale}, "y");
  }
};

/// Elements of x, a third of which are outside the range of the codes.
double element(size_t i) { return 6 * Random(3, 3).uniform(i) - 3; }

/// Runs `tape` on x and returns its gradient as double.
template <class T>
std::vector<double> gradient(const Graph& graph, TapeOptions options, double before = 0,
                             const PlanHooks& hooks = {}) {
  options.threads = 1;
  Parameters parameters(graph, 1);
  const auto x = parameters.at("x").values<T>();
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(element(i));
  for (T& each : parameters.at("x").gradients<T>()) each = static_cast<T>(before);
  Tape tape(graph, parameters, std::move(options), hooks);
  tape.forward(mode::qat);
  tape.backward();
  CHECK(tape.guards_intact());
  const auto dx = parameters.at("x").gradients<T>();
  return {dx.begin(), dx.end()};
}

/// Checks gradients with and without shared memory, with guards, and accumulated. All must be
/// `expected(i)` where x is inside the range, else 0.
template <class T, class F>
void check_gradients(const Graph& graph, const F& expected) {
  const NodeId loss = graph.at("loss");
  const TapeOptions apart{.roots = {loss}};
  const auto plain = gradient<T>(graph, apart, 0, {.share_memory = false, .guard_bytes = 64});
  CHECK(gradient<T>(graph, {.roots = {loss}}) == plain);
  const auto added = gradient<T>(graph, {.roots = {loss}, .accumulate_gradients = true}, 0.5);
  std::vector<double> exact, exact_added;
  for (size_t i = 0; i < plain.size(); ++i) {
    const double v = static_cast<double>(static_cast<T>(element(i)));
    const bool inside = std::fabs(std::nearbyint(v / x_scale)) <= 7;
    const double code = std::clamp(std::nearbyint(v / x_scale), -7.0, 7.0);
    exact.push_back(inside ? expected(code) : 0.0);
    exact_added.push_back(0.5 + exact.back());
  }
  CHECK(test::first_difference(plain, exact, [](double dx, double of) {
          return std::fabs(dx - of) <= 1e-6 * std::fabs(of);
        }) == "");
  CHECK(test::first_difference(added, exact_added, [](double dx, double of) {
          return std::fabs(dx - of) <= 1e-6;
        }) == "");
}

/// Adds the mean square of y as the scalar `loss`, in a compute dtype.
void add_square_loss(Graph& graph, NodeId y, DType dtype) {
  if (graph[y].type.dtype != dtype) y = graph.add(Cast{.dtype = dtype}, {y});
  graph.add(Mean{}, {graph.add(Mul{}, {y, y})}, "loss");
}

/// Tanh keeps values small. Codes have several readers and change dtypes.
Graph random_graph(uint64_t seed) {
  const Random random(seed, 1);
  uint64_t next = 0;
  Graph graph;
  const NodeId x = graph.add(Parameter{.shape = {count}}, {}, "x");
  const NodeId scale = graph.add(State{.shape = {1}, .value = 0.05}, {}, "scale");
  const NodeId wide =
      graph.add(State{.dtype = DType::F64, .shape = {1}, .value = 0.07}, {}, "wide");
  std::vector<NodeId> nodes = {x};
  std::vector<NodeId> codes;
  const auto any = [&](const std::vector<NodeId>& from) {
    return from[random.below(next++, from.size())];
  };
  for (int i = 0; i < 30; ++i) {
    const uint64_t kind = random.below(next++, 6);
    if (kind == 0) {
      nodes.push_back(graph.add(Tanh{}, {any(nodes)}));
    } else if (kind == 1) {
      nodes.push_back(graph.add(Tanh{}, {graph.add(Add{}, {any(nodes), any(nodes)})}));
    } else if (kind == 2 || codes.empty()) {
      codes.push_back(graph.add(Quantize{.bits = 5}, {any(nodes), scale}));
    } else if (kind == 3) {
      const NodeId half = graph.add(Cast{.dtype = DType::F16}, {any(nodes)});
      codes.push_back(graph.add(Quantize{.bits = 12}, {half, scale}));
    } else if (kind == 4) {
      const NodeId y = graph.add(Dequantize{.dtype = DType::F64}, {any(codes), wide});
      nodes.push_back(graph.add(Cast{}, {y}));
    } else {
      nodes.push_back(graph.add(Dequantize{}, {any(codes), scale}));
    }
  }
  NodeId sum = graph.add(Dequantize{}, {codes.back(), scale});
  for (NodeId id : nodes) sum = graph.add(Add{}, {sum, id});
  add_square_loss(graph, sum, DType::F32);
  return graph;
}

}  // namespace

TEST_CASE("quantize: a gradient runs from a loss through codes to a parameter") {
  for (DType dtype : {DType::F32, DType::F64, DType::F16, DType::BF16}) {
    CAPTURE(to_string_view(dtype));
    const auto expected = [](double code) {
      return 2 * code * y_scale / count * y_scale / x_scale;
    };
    // f16 holds dy with eleven bits and bf16 with eight, which a mean of squares reveals.
    if (dtype == DType::F32 || dtype == DType::F64) {
      Chain narrow(DType::F32, dtype);
      add_square_loss(narrow.graph, narrow.y, dtype);
      check_gradients<float>(narrow.graph, expected);
      Chain wide(DType::F64, dtype);
      add_square_loss(wide.graph, wide.y, dtype);
      check_gradients<double>(wide.graph, expected);
    }
    // The gradient 1 of a sum is exact in all dtypes.
    Chain sums(DType::F32, dtype);
    const NodeId y = sums.graph.add(Cast{}, {sums.y});
    sums.graph.add(Sum{}, {y}, "loss");
    check_gradients<float>(sums.graph, [](double) { return y_scale / x_scale; });
  }
}

TEST_CASE("quantize: gradients of codes with several readers add up") {
  Chain c(DType::F64, DType::F32);
  const NodeId again = c.graph.add(Dequantize{}, {c.codes, c.scale});
  const NodeId half = c.graph.add(Dequantize{.dtype = DType::F16}, {c.codes, c.scale});
  NodeId sum = c.graph.add(Add{}, {c.y, again});
  sum = c.graph.add(Add{}, {sum, c.graph.add(Cast{}, {half})});
  c.graph.add(Sum{}, {sum}, "loss");
  check_gradients<double>(c.graph, [](double) { return 3 * y_scale / x_scale; });
}

TEST_CASE("plan: a gradient of codes takes f32 elements, and the memory of f32 neighbours") {
  for (DType x_dtype : {DType::F32, DType::F64}) {
    Chain c(x_dtype, DType::F32);
    add_square_loss(c.graph, c.y, DType::F32);
    const Plan memory = plan(c.graph, {.outputs = {}, .roots = {c.graph.at("loss")}});
    const auto gradient = [&](NodeId id) { return memory.nodes[at(id)].gradient; };
    CHECK(gradient(c.codes) == gradient(c.y));
    const bool in_parameter = gradient(c.codes).kind == Place::Kind::Leaf;
    CHECK(in_parameter == (x_dtype == DType::F32));
    if (in_parameter) continue;
    const bool found = std::ranges::any_of(memory.buffers, [&](const Lifetime& buffer) {
      return buffer.offset == gradient(c.codes).offset && buffer.bytes == 4 * count;
    });
    CHECK(found);
  }
}

TEST_CASE("plan: sharing memory changes no bit of gradients through codes") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const Graph graph = random_graph(seed);
    const NodeId loss = graph.at("loss");
    const auto apart = gradient<float>(graph, {.roots = {loss}}, 0,
                                       {.share_memory = false, .guard_bytes = 64});
    CHECK(gradient<float>(graph, {.roots = {loss}}) == apart);
    CHECK(std::ranges::any_of(apart, [](double dx) { return dx != 0; }));
  }
}

TEST_CASE("plan: no gradient flows through codes but into Dequantize") {
  const auto error_with = [](const Op& op, bool back) {
    Chain c(DType::F32, DType::F32);
    NodeId y = c.graph.add(op, {c.codes});
    if (back) y = c.graph.add(Dequantize{}, {y, c.scale});
    c.graph.add(Sum{}, {y}, "loss");
    return error_text<PlanError>(
        [&] { (void)plan(c.graph, {.outputs = {}, .roots = {c.graph.at("loss")}}); });
  };
  const std::string none = "no gradient path leads from a parameter to this root";
  CHECK(error_with(Cast{}, false).ends_with(none));
  CHECK(error_with(Reshape{.shape = {-1}}, true).ends_with(none));
  CHECK(error_with(StopGradient{}, true).ends_with(none));
  Graph graph;
  const NodeId q = graph.add(Input{.dtype = DType::S8, .shape = {4}}, {}, "q");
  const NodeId scale = graph.add(Parameter{.shape = {1}}, {}, "scale");
  const NodeId y = graph.add(Dequantize{}, {q, scale});
  CHECK(error_text<PlanError>([&] {
          (void)plan(graph, {.outputs = {}, .roots = {y}});
        }).ends_with(none));
}

TEST_CASE("tape: codes can be a root: their gradient is given as f32") {
  const Chain c(DType::F64, DType::F32);
  Parameters parameters(c.graph, 1);
  for (bool share : {false, true}) {
    Tape tape(c.graph, parameters, {.roots = {c.codes, c.y}, .threads = 1},
              PlanHooks{.share_memory = share, .guard_bytes = share ? 0 : 64});
    const std::vector<float> dy(count, 3.0f);
    for (NodeId root : {c.codes, c.y}) {
      tape.forward(mode::qat);
      tape.backward(root, std::span<const float>(dy));
      const double expected = 3 / x_scale * (root == c.y ? y_scale : 1);
      const auto dx = parameters.at("x").gradients<double>();
      CHECK(std::ranges::all_of(dx, [&](double each) { return each == expected; }));
      CHECK(tape.guards_intact());
    }
    const std::vector<int8_t> integers(count, 1);
    CHECK(error_text<GraphError>([&] {
            tape.backward(c.codes, std::span<const int8_t>(integers));
          }).ends_with("has a gradient of f32[1000], accessed as s8"));
    CHECK(error_text<GraphError>([&] {
            tape.backward(c.codes, std::span<const float>(dy).first(250));
          }).ends_with("the number of elements of dy is 250, expected 1000"));
  }
}

TEST_CASE("tape: a NaN that reaches a Quantize stops the step and names the node") {
  const Chain c(DType::F32, DType::F32);
  Parameters parameters(c.graph, 1);
  Tape tape(c.graph, parameters, {.outputs = {c.y}, .threads = 1});
  parameters.at("x").values<float>()[7] = std::nanf("");
  CHECK(
      error_text<GraphError>([&] { tape.forward(mode::qat); }) ==
      "Quantize %3 'codes' (%0 'x' f32[1000], %1 'x.scale' f32[1]): element 7 of x is NaN, which has no code");
  parameters.at("x").values<float>()[7] = 1;
  tape.forward(mode::float_eval);
  CHECK(tape.value<float>(c.y)[7] == 4 * y_scale);
}
