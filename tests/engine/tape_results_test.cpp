// Results of a step other than values: scales in use and gradients of inputs.
#include <doctest/doctest.h>

#include "qtape/engine/plan_hooks.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/models.h"
#include "qtape/tests/support/small_nets.h"

using namespace qtape;
using test::copied;
using test::error_text;

namespace {

/// loss = mean((tanh(x w^T) + x x - x)^2): x is used four times.
struct FourUses {
  Graph graph;
  NodeId x, loss;

  explicit FourUses(DType dtype, bool trained_x = false) {
    const Op leaf = trained_x ? Op{Parameter{.dtype = dtype, .shape = {5, 4}}}
                              : Op{Input{.dtype = dtype, .shape = {5, 4}}};
    const Parameter weight{
        .dtype = dtype, .shape = {4, 4}, .initializer = init::KaimingNormal{}};
    x = graph.add(leaf, {}, "x");
    const NodeId w = graph.add(weight, {}, "w");
    const NodeId h = graph.add(Tanh{}, {graph.add(MatMul{.transpose_b = true}, {x, w})});
    const NodeId square = graph.add(Mul{}, {x, x});
    const NodeId y = graph.add(Sub{}, {graph.add(Add{}, {h, square}), x});
    loss = graph.add(Mean{}, {graph.add(Mul{}, {y, y})}, "loss");
    graph.set_outputs({loss});
  }
};

template <class T>
void draw(std::span<T> x, uint64_t seed) {
  test::fill_uniform(x, Random(seed, 0), -1, 1);
}

/// Returns dx of one step with x drawn from `seed`.
template <class T>
std::vector<T> step(Tape& tape, uint64_t seed) {
  draw(tape.input<T>("x"), seed);
  tape.forward(mode::float_train);
  tape.backward();
  return copied(tape.input_gradient<T>("x"));
}

/// Gradient of x as a parameter.
template <class T>
std::vector<T> parameter_gradient(uint64_t seed) {
  const FourUses net(dtype_of<T>, true);
  Parameters parameters(net.graph, 3);
  draw(parameters.at("x").values<T>(), seed);
  Tape tape(net.graph, parameters, {.roots = {net.loss}, .threads = 1});
  tape.forward(mode::float_train);
  tape.backward();
  return copied(parameters.at("x").gradients<T>());
}

template <class T>
void check_as_parameter() {
  const FourUses net(dtype_of<T>);
  Parameters parameters(net.graph, 3);
  for (const bool share : {false, true}) {
    for (const bool accumulate : {false, true}) {
      Tape tape(net.graph, parameters,
                {.roots = {net.loss},
                 .input_gradients = {net.x},
                 .threads = share ? 2 : 1,
                 .accumulate_gradients = accumulate},
                PlanHooks{.share_memory = share, .guard_bytes = share ? 0 : 64});
      for (uint64_t seed : {1u, 2u}) CHECK(step<T>(tape, seed) == parameter_gradient<T>(seed));
      CHECK(tape.guards_intact());
    }
  }
}

}  // namespace

TEST_CASE("tape: the gradient of an input is that of central differences") {
  const FourUses net(DType::F64);
  Parameters parameters(net.graph, 3);
  Tape tape(net.graph, parameters, {.roots = {net.loss}, .input_gradients = {net.x}});
  const std::vector<double> analytic = step<double>(tape, 7);
  const auto x = tape.input<double>(net.x);
  const auto loss_at = [&](size_t k, double value) {
    x[k] = value;
    tape.forward(mode::float_train);
    return tape.scalar(net.loss);
  };
  const double h = 1e-6;
  for (size_t k = 0; k < x.size(); ++k) {
    const double center = x[k];
    const double numeric = (loss_at(k, center + h) - loss_at(k, center - h)) / (2 * h);
    x[k] = center;
    CAPTURE(k);
    CHECK(analytic[k] == doctest::Approx(numeric).epsilon(2e-7).scale(1));
  }
}

TEST_CASE("tape: an input's gradient has the bits of a parameter's and never accumulates") {
  check_as_parameter<float>();
  check_as_parameter<double>();
}

TEST_CASE("tape: asking for an input's gradient changes no bit of the parameters'") {
  const test::Classifier c = test::make_classifier({.dropout = 0.3});
  Parameters plain(c.graph, 1), asked(c.graph, 1);
  Tape one(c.graph, plain, {.roots = {c.loss}});
  Tape two(c.graph, asked, {.roots = {c.loss}, .input_gradients = {c.x}});
  for (int i = 0; i < 2; ++i) {
    for (Tape* tape : {&one, &two}) {
      test::feed(*tape, c, i);
      tape->forward(mode::qat);
      tape->backward();
    }
  }
  for (const ParameterEntry& entry : plain.entries()) {
    if (!entry.trainable()) continue;
    CHECK(copied(entry.gradients<float>()) == copied(asked.at(entry.name).gradients<float>()));
  }
}

TEST_CASE("tape: an input's gradient passes quantizers and casts, and ends at f16 too") {
  Graph graph;
  const NodeId x = graph.add(Input{.dtype = DType::F16, .shape = {3}, .batch = false}, {}, "x");
  const NodeId state = graph.add(State{.shape = {1}, .value = 0.25}, {}, "s");
  const NodeId wide = graph.add(Cast{.dtype = DType::F32}, {x});
  const NodeId q =
      graph.add(FakeQuantize{.bits = 3, .ste = Ste::ClippedIdentity, .scale_mode = Fixed{}},
                {wide, state});
  const NodeId y = graph.add(Sum{}, {q}, "y");
  graph.set_outputs({y});
  Parameters parameters(graph, 1);
  Tape tape(graph, parameters, {.roots = {y}, .input_gradients = {x}});
  const std::vector<Half> given = {{0x3800}, {0x4000}, {0xb800}};  // 0.5, 2 and -0.5
  std::ranges::copy(given, tape.input<Half>(x).begin());
  tape.forward(mode::qat);
  tape.backward();
  CHECK(copied(tape.input_gradient<Half>(x)) == std::vector<Half>{{0x3c00}, {0}, {0x3c00}});
  tape.forward(mode::qat);
  tape.backward(y, std::span<const float>(std::vector<float>{-2}));
  CHECK(copied(tape.input_gradient<Half>(x)) == std::vector<Half>{{0xc000}, {0}, {0xc000}});
}

TEST_CASE("tape: an input may be a root itself") {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {3}}, {}, "x");
  graph.set_outputs({x});
  Parameters parameters(graph, 1);
  Tape tape(graph, parameters, {.roots = {x}, .input_gradients = {x, x}});
  tape.forward(mode::eval);
  const std::vector<float> dy = {1, -2, 3};
  tape.backward(x, std::span<const float>(dy));
  CHECK(copied(tape.input_gradient<float>("x")) == dy);
}

TEST_CASE("tape: gradients of inputs that are not there are errors that say why") {
  const test::Classifier c = test::make_classifier();
  Parameters parameters(c.graph, 1);
  Tape tape(c.graph, parameters, {.roots = {c.loss}, .input_gradients = {c.x}});
  const auto error = [&](NodeId id) {
    return error_text<GraphError>([&] { (void)tape.input_gradient<float>(id); });
  };
  const std::string none =
      "Input %0 'x': its gradient is available after a backward, until the next forward";
  CHECK(error(c.x) == none);
  test::feed(tape, c, 0);
  tape.forward(mode::qat);
  CHECK(error(c.x) == none);
  tape.backward();
  CHECK(error(c.x) == "no error");
  CHECK(error_text<GraphError>([&] { (void)tape.input_gradient<double>(c.x); }) ==
        "Input %0 'x': is f32[32, 40], accessed as f64");
  CHECK(error(c.labels) ==
        "Input %1 'labels': has no gradient; ask for it in TapeOptions::input_gradients");
  CHECK(error(c.logits) == c.graph.describe(c.logits) + ": is not an input");
  tape.forward(mode::eval);
  CHECK(error(c.x) == none);
}

TEST_CASE("tape: scales in use are told after forwards that quantize, and errors say why not") {
  const test::Classifier c = test::make_classifier();
  const NodeId weight = c.graph.at("fc1.weight.quantized");
  const std::string place = c.graph.describe(weight) + ": ";
  Parameters parameters(c.graph, 1);
  Tape tape(c.graph, parameters, {.schedule = {.delay = 1}});
  const auto error = [&] {
    return error_text<GraphError>([&] { (void)tape.qparams(weight); });
  };
  const std::string held =
      place +
      "no scales were in use in the last forward: the mode, or the schedule, did not quantize";
  CHECK(error() == place + "no scales are in use: no forward has run, or the last one failed");
  test::feed(tape, c, 0);
  for (Mode mode : {mode::float_eval, mode::observe, mode::qat}) {
    tape.forward(mode);
    CHECK(error() == held);
  }
  tape.forward(mode::qat);
  CHECK(tape.qparams(weight).size() == 70);
  CHECK(tape.qparams(weight)[0].scale > 0);
  tape.forward(mode::float_eval);
  CHECK(error() == held);
  tape.status(weight).enabled = false;
  tape.forward(mode::eval);
  CHECK(error() ==
        place + "no scales were in use in the last forward: its status had enabled = false");
  tape.status(weight).enabled = true;
  tape.forward(mode::eval);
  CHECK(error() == "no error");
  tape.input<int32_t>(c.labels)[0] = -1;
  CHECK_THROWS_AS(tape.forward(mode::eval), GraphError);
  CHECK(error() == place + "no scales are in use: no forward has run, or the last one failed");
}
