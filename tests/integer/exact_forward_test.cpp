// Tapes with exact arithmetic compared with plain loops over integers.
#include "qtape/integer/training/exact_forward.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "qtape/core/random.h"
#include "qtape/integer/training/exact.h"
#include "qtape/optim/optimizer.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/exact_formulas.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/models.h"
#include "qtape/tests/support/small_nets.h"

using namespace qtape;
using test::first_difference;
namespace formulas = test::formulas;

namespace {

constexpr auto requantizations = requantization::values;
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

const FakeQuantize affine{.range = CodeRange::Unsigned,
                          .scheme = Scheme::Affine,
                          .scale_mode = EMA{.track = Track::Range}};

/// x [rows, k] through a layer to [rows, n], a Relu and a quantizer, and a residual sum if n =
/// k.
struct ExactNet : test::Net {
  int64_t rows, k, n;
  int bits;
  NodeId a, w, product, y, b, c;

  ExactNet(int64_t rows_, int64_t k_, int64_t n_, int bits_ = 8)
      : Net({rows_, k_}), rows(rows_), k(k_), n(n_), bits(bits_) {
    const FakeQuantize op = affine.with(&FakeQuantize::bits, bits);
    a = quantized(x, op, "a");
    y = layer(a, n, "fc");
    product = graph[y].operands[0];
    w = graph.at("fc.weight.quantized");
    b = quantized(add(Relu{}, {y}), op, "b");
    c = n == k ? quantized(add(Add{}, {a, b}), op, "c") : b;
    graph.set_outputs({c});
  }
  std::vector<NodeId> all() const { return {a, w, product, y, b, c}; }
  Tape tape(Parameters& parameters, Requantization requantization,
            const QuantizationSchedule& schedule = {}, int threads = default_threads()) const {
    return {graph,
            parameters,
            {.outputs = all(),
             .threads = threads,
             .arithmetic = exact(requantization, {.keep = true}),
             .schedule = schedule}};
  }
};

void fill(std::span<float> x, uint64_t seed) { test::fill_uniform(x, Random(seed, 1), -2, 4); }

QParams<float> q_of(const Tape& tape, NodeId id, size_t c = 0) {
  const auto all = tape.qparams(id);
  const auto& q = all[all.size() == 1 ? 0 : c];
  return {static_cast<float>(q.scale), static_cast<float>(q.zero_point)};
}

/// Results of plain loops for the values of the tape's input and parameters.
struct Plain {
  std::vector<int64_t> a, product, accumulators, b, c;  // minus their zero points

  Plain(const ExactNet& net, const Tape& tape, const Parameters& parameters,
        Requantization requantization) {
    const bool wide = net.bits > 8;
    const int64_t most = (int64_t{1} << net.bits) - 1;
    const auto zero_point = [&](const QParams<float>& q) {
      return static_cast<int64_t>(q.zero_point);
    };
    const auto limited = [&](int64_t steps, const QParams<float>& q) {
      return std::clamp<int64_t>(steps, -zero_point(q), most - zero_point(q));
    };
    const QParams<float> q_a = q_of(tape, net.a), q_b = q_of(tape, net.b);
    for (float v : tape.value<float>(net.x)) {
      a.push_back(formulas::code(v, q_a.scale, zero_point(q_a), 0, most));
    }
    multiply(net, tape, parameters);
    for (size_t i = 0; i < accumulators.size(); ++i) {
      const double scale =
          double{q_a.scale} * double{q_of(tape, net.w, i % static_cast<size_t>(net.n)).scale};
      const int64_t steps =
          formulas::requant(accumulators[i], scale, double{q_b.scale}, requantization, wide);
      b.push_back(std::max<int64_t>(0, limited(steps, q_b)));
    }
    if (net.c == net.b) {
      c = b;
      return;
    }
    const QParams<float> q_c = q_of(tape, net.c);
    for (size_t i = 0; i < a.size(); ++i) {
      c.push_back(limited(formulas::add(a[i], b[i], double{q_a.scale}, double{q_b.scale},
                                        double{q_c.scale}, requantization, wide),
                          q_c));
    }
  }

 private:
  void multiply(const ExactNet& net, const Tape& tape, const Parameters& parameters) {
    const auto w = parameters.at("fc.weight").values<float>();
    const auto bias = parameters.at("fc.bias").values<float>();
    const float s_a = q_of(tape, net.a).scale;
    for (int64_t r = 0; r < net.rows; ++r) {
      for (int64_t o = 0; o < net.n; ++o) {
        const auto at = static_cast<size_t>(o);
        const float s_w = q_of(tape, net.w, at).scale;
        int64_t sum = 0;
        for (int64_t i = 0; i < net.k; ++i) {
          const float v = w[static_cast<size_t>(o * net.k + i)];
          sum += a[static_cast<size_t>(r * net.k + i)] * formulas::code(v, s_w, 0, -127, 127);
        }
        product.push_back(sum);
        accumulators.push_back(sum + formulas::bias(bias[at], s_a, s_w));
      }
    }
  }
};

/// Returns the first element of node `id` whose integer, minus its zero point, is not that of
/// `integers`, or whose float is not that times `scale(i)`.
template <class Scale>
std::string difference(const Tape& tape, NodeId id, const std::vector<int64_t>& integers,
                       const Scale& scale) {
  const ExactValue* value = tape.integers(id);
  REQUIRE(value != nullptr);
  if (!value->exact) return "not exact";
  const int64_t zero_point = value->value.is_accumulators() ? 0 : value->value.zero_point;
  for (size_t i = 0; i < integers.size(); ++i) {
    const int64_t found = value->at(static_cast<int64_t>(i)) - zero_point;
    const float number = tape.value<float>(id)[i];
    const float wanted = static_cast<float>(integers[i]) * scale(i);
    if (found == integers[i] && number == wanted) continue;
    return fmt::format("{}: element {}: {} of value {}, expected {} of value {}",
                       tape.graph().describe(id), i, found, number, integers[i], wanted);
  }
  return "";
}

void check_against_loops(const ExactNet& net, const Tape& tape, const Parameters& parameters,
                         Requantization requantization) {
  const Plain plain(net, tape, parameters, requantization);
  const auto of_codes = [&](NodeId id) {
    return [scale = q_of(tape, id).scale](size_t) { return scale; };
  };
  const auto of_sums = [&](size_t i) {
    const float s_w = q_of(tape, net.w, i % static_cast<size_t>(net.n)).scale;
    return static_cast<float>(double{q_of(tape, net.a).scale} * double{s_w});
  };
  CAPTURE(to_string_view(requantization));
  CHECK(difference(tape, net.a, plain.a, of_codes(net.a)) == "");
  CHECK(difference(tape, net.product, plain.product, of_sums) == "");
  CHECK(difference(tape, net.y, plain.accumulators, of_sums) == "");
  CHECK(difference(tape, net.b, plain.b, of_codes(net.b)) == "");
  CHECK(difference(tape, net.c, plain.c, of_codes(net.c)) == "");
}

void check_net(const ExactNet& net, int threads,
               const std::function<void(Parameters&)>& change = {}) {
  for (Requantization requantization : requantizations) {
    test::Settled of(net.graph, 2);
    if (change) change(of.parameters);
    Tape tape = net.tape(of.parameters, requantization, {}, threads);
    for (Mode mode : {mode::eval, mode::qat, mode::eval}) {
      fill(tape.input<float>(net.x), 5 + static_cast<uint64_t>(requantization));
      tape.forward(mode);
      check_against_loops(net, tape, of.parameters, requantization);
    }
  }
}

}  // namespace

TEST_CASE("exact: sums have room for codes at any distance from their zero point") {
  constexpr int64_t terms = 65000;
  const FakeQuantize wide{
      .bits = 16, .range = CodeRange::Full, .scheme = Scheme::Affine, .scale_mode = Fixed{}};
  test::Net net({1, terms});
  const NodeId q = net.quantized(net.x, wide, "q");
  const NodeId sum = net.add(Sum{.axes = {1}}, {q}, "sum");
  net.graph.set_outputs({sum});
  Parameters parameters(net.graph, 1);
  set_qparams(net.graph, parameters, q, 1.0, -32768.0);
  Tape tape(net.graph, parameters,
            {.outputs = {sum}, .arithmetic = exact(Requantization::FloatMultiply)});
  std::ranges::fill(tape.input<float>(net.x), 1e9f);
  tape.forward(mode::eval);
  CHECK(tape.value<float>(sum)[0] == static_cast<float>(terms * 65535));
}

TEST_CASE("exact forward: values are codes and accumulators as plain loops compute them") {
  check_net({5, 7, 7}, 1);
  check_net({64, 33, 33}, 2);
  check_net({9, 20, 11, 4}, 1);
  check_net({9, 13, 13, 9}, 2);
  check_net({9, 21, 21, 16}, 2);
}

TEST_CASE("exact forward: accumulators that leave 24 bits are exact, in 8 and in 16 bits") {
  const auto full = [](Parameters& p) {
    std::ranges::fill(p.at("fc.weight").values<float>(), 1.27f);
    // A single odd weight makes odd accumulators.
    p.at("fc.weight").values<float>()[0] = 1.26f;
  };
  check_net({4, 2000, 3}, 2, full);
  check_net({4, 5000, 3}, 2, full);
  check_net({4, 2000, 3, 16}, 2, full);
  check_net({4, 500, 3, 16}, 2, full);
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
      CHECK(first_difference(integer.value<float>(c.logits), plain.value<float>(c.logits)) ==
            "");
      CHECK(first_difference(two.at("fc1.weight").gradients<float>(),
                             one.at("fc1.weight").gradients<float>()) == "");
    }
    CHECK(one.sha256() == two.sha256());
  }
}

TEST_CASE("exact forward: Dropout applies in training, and what follows has no integers") {
  test::Net net({8, 40});
  const NodeId a = net.quantized(net.x, affine, "a");
  const NodeId d = net.add(Dropout{.rate = 0.5}, {a});
  const NodeId y = net.layer(d, 9, "fc", FakeQuantize{});
  const NodeId e = net.add(Dropout{.rate = 0.5}, {net.add(Relu{}, {y})});
  const NodeId b = net.quantized(e, affine, "b");
  net.graph.set_outputs({a, d, y, b});
  Parameters parameters(net.graph, 1), others(net.graph, 1);
  Tape plain(net.graph, parameters, {.seed = 4});
  Tape integer(net.graph, others,
               {.seed = 4, .arithmetic = exact(Requantization::FloatMultiply, {.keep = true})});
  for (int step = 0; step < 2; ++step) {
    for (Tape* tape : {&plain, &integer}) {
      fill(tape->input<float>(net.x), 1);
      tape->forward(mode::qat);
    }
    // Dropout's codes are not on a grid: values equal those of float arithmetic until the next
    // quantizer.
    for (NodeId id : {a, d, y, b}) {
      CHECK(first_difference(integer.value<float>(id), plain.value<float>(id)) == "");
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
  const FakeQuantize fixed{.bits = 4, .ste = Ste::ClippedIdentity, .scale_mode = Fixed{}};
  Graph graph;
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
  CHECK(first_difference(integer.value<float>(y), plain.value<float>(y)) == "");
  for (const ParameterEntry& entry : one.entries()) {
    if (!entry.trainable()) continue;
    CAPTURE(entry.name);
    CHECK(first_difference(two.at(entry.name).gradients<float>(), entry.gradients<float>()) ==
          "");
  }
}

TEST_CASE("exact forward: a quantizer that is off or delayed leaves floats after it") {
  const ExactNet net(5, 7, 7);
  test::Settled of(net.graph, 2);
  Tape tape = net.tape(of.parameters, Requantization::SingleRounding, {.delay = 2});
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
  check_against_loops(net, tape, of.parameters, Requantization::SingleRounding);
}

TEST_CASE("exact forward: a batch with NaN is computed in floats and forgotten") {
  const ExactNet net(5, 7, 7);
  test::Settled one(net.graph, 2), two(net.graph, 2);
  Tape tape = net.tape(one.parameters, Requantization::DoubleRounding);
  Tape plain(net.graph, two.parameters, {.outputs = net.all()});
  for (Tape* each : {&tape, &plain}) {
    fill(each->input<float>(net.x), 1);
    each->input<float>(net.x)[8] = not_a_number;
    each->forward(mode::eval);
  }
  for (NodeId id : {net.a, net.product, net.y, net.b, net.c}) {
    CHECK(!tape.integers(id)->exact);
    const auto a = tape.value<float>(id);
    CHECK(std::ranges::count_if(a, [](float v) { return std::isnan(v); }) > 0);
    CHECK(first_difference(a, plain.value<float>(id), test::same_or_nan) == "");
  }
  fill(tape.input<float>(net.x), 1);
  tape.forward(mode::eval);
  check_against_loops(net, tape, one.parameters, Requantization::DoubleRounding);
}

TEST_CASE("exact forward: constant parameters change no bit, whatever the passes are") {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Graph graph = test::random_net(seed);
    test::Settled one(graph, seed), two(graph, seed);
    const Arithmetic arithmetic = exact(requantizations[seed % requantizations.size()]);
    Tape lasting(graph, one.parameters,
                 {.constant_parameters = true, .arithmetic = arithmetic});
    Tape plain(graph, two.parameters, {.arithmetic = arithmetic});
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
        CAPTURE(seed);
        CAPTURE(pass);
        CHECK(first_difference(lasting.value<float>(id), plain.value<float>(id),
                               test::same_or_nan) == "");
      }
    }
  }
}

TEST_CASE("exact forward: a tape works after it was moved") {
  const ExactNet net(5, 7, 7);
  test::Settled of(net.graph, 2);
  Tape first = net.tape(of.parameters, Requantization::OnnxQdq);
  Tape second(std::move(first));
  fill(second.input<float>(net.x), 3);
  second.forward(mode::eval);
  check_against_loops(net, second, of.parameters, Requantization::OnnxQdq);
  CHECK(second.integers(net.x) == nullptr);
  CHECK(Tape(net.graph, of.parameters, {}).integers(net.a) == nullptr);
  CHECK(test::error_text<ArgumentError>([&] {
          (void)second.integers(net.a)->at(-1);
        }).starts_with("expected an element within 0.."));
  // Without `keep`, memory of integers is used again.
  Tape lean(net.graph, of.parameters, {.arithmetic = exact(Requantization::OnnxQdq)});
  lean.forward(mode::eval);
  CHECK(lean.integers(net.a) == nullptr);
}
