// Tapes with exact arithmetic compared with plain loops over integers.
#include "qtape/integer/training/exact_forward.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "qtape/core/random.h"
#include "qtape/engine/quantizers.h"
#include "qtape/engine/tape.h"
#include "qtape/integer/training/exact.h"
#include "qtape/kernels/quantize/quantize.h"
#include "qtape/model/layers.h"
#include "qtape/optim/optimizer.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/models.h"

using namespace qtape;
using namespace qtape::kernels;

namespace {

constexpr auto requantizations = requantization::values;
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

const FakeQuantize affine{.range = CodeRange::Unsigned,
                          .scheme = Scheme::Affine,
                          .scale_mode = EMA{.track = Track::Range}};

/// x [rows, k] through a layer to [rows, n], a Relu and a quantizer, and a residual sum if n =
/// k.
struct Net {
  int64_t rows, k, n;
  Graph graph;
  NodeId x, a, w, product, y, b, c;

  Net(int64_t rows_, int64_t k_, int64_t n_, const FakeQuantize& op = affine)
      : rows(rows_), k(k_), n(n_) {
    x = graph.add(Input{.shape = {rows, k}}, {}, "x");
    a = add_quantizer(graph, x, op, "a");
    y = linear(graph, a,
               {.out = n, .weight_quantizer = FakeQuantize{.axis = 0}, .label = "fc"});
    product = graph[y].operands[0];
    w = graph.at("fc.weight.quantized");
    b = add_quantizer(graph, graph.add(Relu{}, {y}), op, "b");
    c = b;
    if (n == k) c = add_quantizer(graph, graph.add(Add{}, {a, b}), op, "c");
    graph.set_outputs({c});
  }
  std::vector<NodeId> all() const { return {a, w, product, y, b, c}; }
};

void fill(std::span<float> x, uint64_t seed) {
  const Random random(seed, 1);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(random.uniform(i) * 6 - 2);
}

QParams<float> q_of(const Tape& tape, NodeId id, size_t c = 0) {
  const auto all = tape.qparams(id);
  const auto& q = all[all.size() == 1 ? 0 : c];
  return {static_cast<float>(q.scale), static_cast<float>(q.zero_point)};
}

/// Results of a plain loop for the values of the tape's input and parameters.
struct Plain {
  std::vector<int64_t> a, product, accumulators, b, c;  // minus their zero points

  Plain(const Net& net, const Tape& tape, const Parameters& parameters,
        Requantization requantization) {
    const auto x = tape.value<float>(net.x);
    const QParams<float> q_a = q_of(tape, net.a);
    const Grid grid = grid_of(net.graph, net.a);
    for (float v : x) {
      a.push_back(static_cast<int64_t>(code_of(v, q_a, grid) - q_a.zero_point));
    }
    multiply(net, tape, parameters, q_a);
    requantize_accumulators(net, tape, q_a, requantization);
    if (net.c == net.b) {
      c = b;
      return;
    }
    const QParams<float> q_b = q_of(tape, net.b);
    const QParams<float> q_c = q_of(tape, net.c);
    const AddMultiplier m =
        add_multiplier_of(q_a.scale, q_b.scale, q_c.scale, grid.limits.q_max > 255);
    for (size_t i = 0; i < a.size(); ++i) {
      c.push_back(limited(requantize_add(static_cast<int32_t>(a[i]), static_cast<int32_t>(b[i]),
                                         m, requantization),
                          q_c, grid.limits));
    }
  }

 private:
  static int64_t limited(int64_t steps, const QParams<float>& q, CodeLimits limits) {
    const auto zero_point = static_cast<int64_t>(q.zero_point);
    return std::clamp<int64_t>(steps + zero_point, limits.q_min, limits.q_max) - zero_point;
  }

  void multiply(const Net& net, const Tape& tape, const Parameters& parameters,
                const QParams<float>& q_a) {
    const auto w = parameters.at("fc.weight").values<float>();
    const auto bias = parameters.at("fc.bias").values<float>();
    const Grid grid = grid_of(net.graph, net.w);
    for (int64_t r = 0; r < net.rows; ++r) {
      for (int64_t o = 0; o < net.n; ++o) {
        const auto at = static_cast<size_t>(o);
        const QParams<float> q_w = q_of(tape, net.w, at);
        int64_t sum = 0;
        for (int64_t i = 0; i < net.k; ++i) {
          const float v = w[static_cast<size_t>(o * net.k + i)];
          sum += a[static_cast<size_t>(r * net.k + i)] *
                 static_cast<int64_t>(code_of(v, q_w, grid));
        }
        product.push_back(sum);
        accumulators.push_back(sum +
                               static_cast<int64_t>(bias_code(bias[at], q_a.scale, q_w.scale)));
      }
    }
  }

  void requantize_accumulators(const Net& net, const Tape& tape, const QParams<float>& q_a,
                               Requantization requantization) {
    const QParams<float> q_b = q_of(tape, net.b);
    for (size_t i = 0; i < accumulators.size(); ++i) {
      const QParams<float> q_w = q_of(tape, net.w, i % static_cast<size_t>(net.n));
      const Multiplier m = multiplier_of(q_a.scale * double{q_w.scale}, q_b.scale);
      const bool wide = grid_of(net.graph, net.a).limits.q_max > 255;
      const int64_t steps = requantize(accumulators[i], m, requantization,
                                       wide ? Accumulator::S64 : Accumulator::S32);
      b.push_back(std::max<int64_t>(0, limited(steps, q_b, grid_of(net.graph, net.b).limits)));
    }
  }
};

/// Returns the number of elements of node `id` that differ from codes times its scale, as
/// floats or as integers.
int64_t wrong_codes(const Tape& tape, NodeId id, const std::vector<int64_t>& codes) {
  const ExactValue* value = tape.integers(id);
  REQUIRE(value != nullptr);
  if (!value->exact) return -1;
  const float scale = q_of(tape, id).scale;
  int64_t wrong = 0;
  for (size_t i = 0; i < codes.size(); ++i) {
    const auto code = static_cast<float>(codes[i]);
    const int64_t found = value->at(static_cast<int64_t>(i)) - value->value.zero_point;
    wrong += found == codes[i] && tape.value<float>(id)[i] == code * scale ? 0 : 1;
  }
  return wrong;
}

int64_t wrong_sums(const Tape& tape, const Net& net, NodeId id,
                   const std::vector<int64_t>& accumulators) {
  const ExactValue* value = tape.integers(id);
  REQUIRE(value != nullptr);
  if (!value->exact) return -1;
  const float s_a = q_of(tape, net.a).scale;
  int64_t wrong = 0;
  for (size_t i = 0; i < accumulators.size(); ++i) {
    const float s_w = q_of(tape, net.w, i % static_cast<size_t>(net.n)).scale;
    const auto scale = static_cast<float>(s_a * double{s_w});
    wrong += value->at(static_cast<int64_t>(i)) == accumulators[i] &&
                     tape.value<float>(id)[i] == static_cast<float>(accumulators[i]) * scale
                 ? 0
                 : 1;
  }
  return wrong;
}

void check_against_loops(const Net& net, const Tape& tape, const Parameters& parameters,
                         Requantization requantization) {
  const Plain plain(net, tape, parameters, requantization);
  CAPTURE(to_string_view(requantization));
  CHECK(wrong_codes(tape, net.a, plain.a) == 0);
  CHECK(wrong_sums(tape, net, net.product, plain.product) == 0);
  CHECK(wrong_sums(tape, net, net.y, plain.accumulators) == 0);
  CHECK(wrong_codes(tape, net.b, plain.b) == 0);
  CHECK(wrong_codes(tape, net.c, plain.c) == 0);
}

void check_net(const Net& net, int threads,
               const std::function<void(Parameters&)>& change = {}) {
  for (Requantization requantization : requantizations) {
    Parameters parameters(net.graph, 2);
    test::settle(net.graph, parameters, 2);
    if (change) change(parameters);
    Tape tape(net.graph, parameters,
              {.outputs = net.all(),
               .threads = threads,
               .arithmetic = exact(requantization, {.keep = true})});
    for (Mode mode : {mode::eval, mode::qat, mode::eval}) {
      fill(tape.input<float>(net.x), 5 + static_cast<uint64_t>(requantization));
      tape.forward(mode);
      check_against_loops(net, tape, parameters, requantization);
    }
  }
}

}  // namespace

TEST_CASE("exact: sums have room for codes at any distance from their zero point") {
  constexpr int64_t terms = 65000;
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {1, terms}}, {}, "x");
  const FakeQuantize wide{
      .bits = 16, .range = CodeRange::Full, .scheme = Scheme::Affine, .scale_mode = Fixed{}};
  const NodeId q = add_quantizer(graph, x, wide, "q");
  const NodeId sum = graph.add(Sum{.axes = {1}}, {q}, "sum");
  graph.set_outputs({sum});
  Parameters parameters(graph, 1);
  set_qparams(graph, parameters, q, 1.0, -32768.0);
  Tape tape(graph, parameters,
            {.outputs = {sum}, .arithmetic = exact(Requantization::FloatMultiply)});
  std::ranges::fill(tape.input<float>(x), 1e9f);
  tape.forward(mode::eval);
  CHECK(tape.value<float>(sum)[0] == static_cast<float>(terms * 65535));
}

TEST_CASE("exact forward: values are codes and accumulators as plain loops compute them") {
  check_net({5, 7, 7}, 1);
  check_net({64, 33, 33}, 2);
  check_net({9, 20, 11, affine.with(&FakeQuantize::bits, 4)}, 1);
  check_net({9, 13, 13, affine.with(&FakeQuantize::bits, 9)}, 2);
  check_net({9, 21, 21, affine.with(&FakeQuantize::bits, 16)}, 2);
}

TEST_CASE("exact forward: accumulators that leave 24 bits are exact, in 8 and in 16 bits") {
  const auto full = [](Parameters& p) {
    std::ranges::fill(p.at("fc.weight").values<float>(), 1.27f);
    // A single odd weight makes odd accumulators.
    p.at("fc.weight").values<float>()[0] = 1.26f;
  };
  check_net({4, 2000, 3}, 2, full);
  check_net({4, 5000, 3}, 2, full);
  check_net({4, 2000, 3, affine.with(&FakeQuantize::bits, 16)}, 2, full);
  check_net({4, 500, 3, affine.with(&FakeQuantize::bits, 16)}, 2, full);
}

TEST_CASE("exact forward: modes that do not quantize give the bits of a tape without it") {
  const test::Classifier c = test::make_classifier({.dropout = 0.3});
  for (Mode mode : {mode::float_eval, mode::float_train, mode::observe}) {
    Parameters one(c.graph, 3), two(c.graph, 3);
    Tape plain(c.graph, one, {.roots = {c.loss}});
    Tape integer(c.graph, two,
                 {.roots = {c.loss},
                  .arithmetic = exact(Requantization::SingleRounding, {.keep = true})});
    for (int step = 0; step < 3; ++step) {
      for (Tape* tape : {&plain, &integer}) {
        test::feed(*tape, c, step);
        tape->forward(mode);
        tape->backward();
      }
      CHECK(std::ranges::equal(plain.value<float>(c.logits), integer.value<float>(c.logits)));
      CHECK(std::ranges::equal(one.at("fc1.weight").gradients<float>(),
                               two.at("fc1.weight").gradients<float>()));
    }
    CHECK(one.sha256() == two.sha256());
  }
}

TEST_CASE("exact forward: Dropout applies in training, and what follows has no integers") {
  const test::Classifier c = test::make_classifier({.dropout = 0.5});
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {8, 40}}, {}, "x");
  const NodeId a = add_quantizer(graph, x, affine, "a");
  const NodeId d = graph.add(Dropout{.rate = 0.5}, {a});
  const NodeId y =
      linear(graph, d, {.out = 9, .weight_quantizer = FakeQuantize{}, .label = "fc"});
  const NodeId e = graph.add(Dropout{.rate = 0.5}, {graph.add(Relu{}, {y})});
  const NodeId b = add_quantizer(graph, e, affine, "b");
  graph.set_outputs({a, d, y, b});
  Parameters parameters(graph, 1), others(graph, 1);
  Tape plain(graph, parameters, {.seed = 4});
  Tape integer(graph, others,
               {.seed = 4, .arithmetic = exact(Requantization::FloatMultiply, {.keep = true})});
  for (int step = 0; step < 2; ++step) {
    for (Tape* tape : {&plain, &integer}) {
      fill(tape->input<float>(x), 1);
      tape->forward(mode::qat);
    }
    // Dropout's codes are not on a grid: values equal those of float arithmetic until the next
    // quantizer.
    for (NodeId id : {a, d, y, b}) {
      CHECK(std::ranges::equal(plain.value<float>(id), integer.value<float>(id)));
    }
    CHECK(std::ranges::count(integer.value<float>(d), 0.0f) > 80);
    CHECK(integer.integers(a)->exact);
    CHECK(!integer.integers(y)->exact);
    CHECK(integer.integers(b)->exact);
    integer.forward(mode::eval);
    CHECK(integer.integers(y)->exact);
  }
}

TEST_CASE("exact forward: training works in each requantization, alike at 1, 2 and 4 threads") {
  const test::Classifier c = test::make_classifier();
  const auto train = [&](Arithmetic arithmetic, int threads, double& first, double& last) {
    Parameters parameters(c.graph, 7);
    Tape tape(c.graph, parameters,
              {.roots = {c.loss}, .threads = threads, .arithmetic = arithmetic});
    Optimizer optimizer(parameters, Adam{}, {}, threads);
    for (int step = 0; step < 40; ++step) {
      test::feed(tape, c, 0);
      tape.forward(mode::qat);
      last = tape.scalar(c.loss);
      if (step == 0) first = last;
      tape.backward();
      optimizer.step(3e-3);
    }
    return parameters.sha256();
  };
  for (Requantization requantization : requantizations) {
    double first = 0, last = 0;
    const std::string one = train(exact(requantization), 1, first, last);
    CHECK(last < 0.7 * first);
    CHECK(train(exact(requantization), 2, first, last) == one);
    CHECK(train(exact(requantization), 4, first, last) == one);
  }
}

TEST_CASE("exact forward: gradients are those of floats where values are") {
  // Scales are powers of two and accumulators are small, so floats are exact as well.
  Graph graph;
  const FakeQuantize fixed{.bits = 4, .ste = Ste::ClippedIdentity, .scale_mode = Fixed{}};
  const NodeId x = graph.add(Input{.shape = {6, 5}}, {}, "x");
  NodeId y =
      linear(graph, x,
             {.out = 4, .weight_quantizer = fixed, .input_quantizer = fixed, .label = "one"});
  y = linear(graph, graph.add(Relu{}, {y}),
             {.out = 3, .weight_quantizer = fixed, .input_quantizer = fixed, .label = "two"});
  const NodeId loss = graph.add(Mean{}, {graph.add(Mul{}, {y, y})}, "loss");
  graph.set_outputs({y});
  Parameters one(graph, 2), two(graph, 2);
  for (Parameters* p : {&one, &two}) {
    for (NodeId id : quantizers(graph)) set_qparams(graph, *p, id, 0.25);
  }
  Tape plain(graph, one, {.roots = {loss}});
  Tape integer(
      graph, two,
      {.roots = {loss}, .arithmetic = exact(Requantization::FloatMultiply, {.keep = true})});
  for (Tape* tape : {&plain, &integer}) {
    fill(tape->input<float>(x), 8);
    tape->forward(mode::qat);
    tape->backward();
  }
  CHECK(std::ranges::equal(plain.value<float>(y), integer.value<float>(y)));
  for (const ParameterEntry& entry : one.entries()) {
    if (!entry.trainable()) continue;
    CAPTURE(entry.name);
    CHECK(std::ranges::equal(entry.gradients<float>(), two.at(entry.name).gradients<float>()));
  }
}

TEST_CASE("exact forward: a quantizer that is off or delayed leaves floats after it") {
  const Net net(5, 7, 7);
  Parameters parameters(net.graph, 2);
  test::settle(net.graph, parameters, 2);
  Tape tape(net.graph, parameters,
            {.outputs = net.all(),
             .arithmetic = exact(Requantization::SingleRounding, {.keep = true}),
             .schedule = {.delay = 2}});
  fill(tape.input<float>(net.x), 1);
  for (bool applied : {false, false, true}) {
    tape.forward(mode::qat);
    for (NodeId id : {net.a, net.product, net.y, net.b, net.c}) {
      CHECK(tape.integers(id)->exact == applied);
    }
  }
  tape.status(net.a).enabled = false;
  tape.forward(mode::eval);
  CHECK(!tape.integers(net.y)->exact);
  CHECK(tape.integers(net.b)->exact);
  tape.status(net.a).enabled = true;
  tape.status(net.w).enabled = false;
  tape.forward(mode::eval);
  CHECK(tape.integers(net.a)->exact);
  CHECK(!tape.integers(net.product)->exact);
  CHECK(tape.integers(net.c)->exact);
  tape.status(net.w).enabled = true;
  tape.forward(mode::eval);
  check_against_loops(net, tape, parameters, Requantization::SingleRounding);
}

TEST_CASE("exact forward: a batch with NaN is computed in floats and forgotten") {
  const Net net(5, 7, 7);
  Parameters one(net.graph, 2), two(net.graph, 2);
  test::settle(net.graph, one, 2);
  test::settle(net.graph, two, 2);
  Tape tape(net.graph, one,
            {.outputs = net.all(),
             .arithmetic = exact(Requantization::DoubleRounding, {.keep = true})});
  Tape plain(net.graph, two, {.outputs = net.all()});
  for (Tape* each : {&tape, &plain}) {
    fill(each->input<float>(net.x), 1);
    each->input<float>(net.x)[8] = not_a_number;
    each->forward(mode::eval);
  }
  for (NodeId id : {net.a, net.product, net.y, net.b, net.c}) {
    CHECK(!tape.integers(id)->exact);
    const auto a = tape.value<float>(id);
    const auto b = plain.value<float>(id);
    CHECK(std::ranges::count_if(a, [](float v) { return std::isnan(v); }) > 0);
    CHECK(std::ranges::equal(
        a, b, [](float v, float w) { return v == w || (std::isnan(v) && std::isnan(w)); }));
  }
  fill(tape.input<float>(net.x), 1);
  tape.forward(mode::eval);
  check_against_loops(net, tape, one, Requantization::DoubleRounding);
}

TEST_CASE("exact forward: constant parameters change no bit, whatever the passes are") {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Graph graph = test::random_net(seed);
    Parameters one(graph, seed), two(graph, seed);
    test::settle(graph, one, seed);
    test::settle(graph, two, seed);
    const Arithmetic arithmetic = exact(requantizations[seed % requantizations.size()]);
    Tape lasting(graph, one, {.constant_parameters = true, .arithmetic = arithmetic});
    Tape plain(graph, two, {.arithmetic = arithmetic});
    std::vector<NodeId> quantizers;
    for (const NodeId id : ids(graph)) {
      const bool needed = plain.memory().nodes[at(id)].needed;
      if (needed && is_quantizer(graph[id].op)) quantizers.push_back(id);
    }
    const Random random(seed, 7);
    for (uint64_t pass = 0; pass < 12; ++pass) {
      const NodeId switched = quantizers[random.below(100 + pass, quantizers.size())];
      const Mode mode = pass == 4   ? mode::float_eval
                        : pass == 7 ? mode::qat
                        : pass == 9 ? mode::observe
                                    : mode::eval;
      for (Tape* tape : {&lasting, &plain}) {
        if (pass % 5 == 3) {
          tape->status(switched).enabled = !tape->status(switched).enabled;
        }
        for (const NodeId id : ids(graph)) {
          if (!std::holds_alternative<Input>(graph[id].op)) continue;
          const auto x = tape->input<float>(id);
          if (mode.observe) {
            fill(x, 31 * seed + pass);
          } else {
            test::fill_wild(x, 31 * seed + pass);
          }
          if (pass % 6 == 2) x[0] = not_a_number;
        }
        tape->forward(mode);
      }
      for (NodeId id : graph.outputs()) {
        const auto a = lasting.value<float>(id);
        const auto b = plain.value<float>(id);
        CAPTURE(seed);
        CAPTURE(pass);
        CHECK(std::ranges::equal(
            a, b, [](float v, float w) { return v == w || (std::isnan(v) && std::isnan(w)); }));
      }
    }
  }
}

TEST_CASE("exact forward: a tape works after it was moved") {
  const Net net(5, 7, 7);
  Parameters parameters(net.graph, 2);
  test::settle(net.graph, parameters, 2);
  Tape first(
      net.graph, parameters,
      {.outputs = net.all(), .arithmetic = exact(Requantization::OnnxQdq, {.keep = true})});
  Tape second(std::move(first));
  fill(second.input<float>(net.x), 3);
  second.forward(mode::eval);
  check_against_loops(net, second, parameters, Requantization::OnnxQdq);
  CHECK(second.integers(net.x) == nullptr);
  CHECK(Tape(net.graph, parameters, {}).integers(net.a) == nullptr);
}
