#include "qtape/integer/ops/normalize.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>

#include "qtape/core/random.h"
#include "qtape/deploy/convert.h"
#include "qtape/engine/quantizers.h"
#include "qtape/engine/tape.h"
#include "qtape/integer/core/integer_root.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/program/session.h"
#include "qtape/integer/training/exact.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/first_difference.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/integer_programs.h"
#include "qtape/tests/support/small_nets.h"

using namespace qtape;
using test::error_text;

namespace {

__extension__ typedef __int128 Wide;

/// True if r is the integer root of v.
bool is_root(int64_t r, int64_t v) { return Wide{r} * r <= v && (Wide{r} + 1) * (r + 1) > v; }

TEST_CASE("integer root: squares, what lies beside them, and random numbers") {
  constexpr int64_t least = int64_t{1} << 60, end = int64_t{1} << 62;
  const Random random(1, 1);
  for (uint64_t i = 0; i < 300'000; ++i) {
    const auto root =
        static_cast<int64_t>((uint64_t{1} << 30) + random.below(i, uint64_t{1} << 30));
    for (const int64_t beside : {-1, 0, 1}) {
      const int64_t v = root * root + beside;
      if (v < least) continue;
      REQUIRE(is_root(integer_root(v), v));
    }
    const auto v = static_cast<int64_t>(uint64_t{least} +
                                        random.below(i + 1'000'000, uint64_t{end - least}));
    REQUIRE(is_root(integer_root(v), v));
  }
  for (int64_t i = 0; i < 100'000; ++i) {
    REQUIRE(is_root(integer_root(least + i), least + i));
    REQUIRE(is_root(integer_root(end - 1 - i), end - 1 - i));
  }
}

/// Numbers of one set, and its result by 128 bits and long doubles.
struct Oracle {
  integer::Normalize op;
  std::vector<int64_t> q;

  /// Returns round(2^16 d / sqrt(v)) for element i, which may be off by the factor's rounding.
  long double normalized(size_t i) const {
    Wide sum = 0, squares = 0;
    for (const int64_t each : q) {
      sum += each;
      squares += Wide{each} * each;
    }
    if (!op.centered) sum = 0;
    const auto n = static_cast<Wide>(q.size());
    Wide v = n * squares - sum * sum;
    for (int bit = 0; bit < op.shift; ++bit) v *= 4;
    v = std::max<Wide>(v + op.epsilon, op.least);
    const auto d = static_cast<long double>(n * q[i] - sum);
    return d * std::exp2l(16 + op.shift) / std::sqrt(static_cast<long double>(v));
  }
};

integer::Normalize with_ones(integer::Normalize op, int64_t channels) {
  const std::vector<int32_t> ones(static_cast<size_t>(channels), 1);
  const std::vector<int32_t> zeros(static_cast<size_t>(channels), 0);
  const std::vector<float> scales(static_cast<size_t>(channels), 1);
  op.signs = Tensor::of<int32_t>({channels}, ones);
  op.scales = Tensor::of<float>({channels}, scales);
  op.bias = Tensor::of<int32_t>({channels}, zeros);
  return op;
}

/// Returns the accumulators of `op` for codes of one row.
std::vector<int64_t> run(const integer::Normalize& op, const CodeGrid& grid,
                         const std::vector<int64_t>& codes) {
  test::ProgramBuilder b(Requantization::SingleRounding);
  const ProgramNodeId x = b.codes({1, std::ssize(codes)}, grid);
  const ProgramNodeId y = b.add(op, {x}, "y");
  IntegerSession session(b.of({y}), {.threads = 1});
  const auto input = session.input("x");
  for (size_t i = 0; i < codes.size(); ++i) {
    input[i] = static_cast<float>(static_cast<double>(codes[i] - grid.zero_point) * grid.scale);
  }
  session.run();
  const auto found = session.value<int32_t>(y);
  return {found.begin(), found.end()};
}

TEST_CASE("normalize: rows of all widths and spreads against 128 bits and long doubles") {
  const Random random(2, 1);
  uint64_t draws = 0;
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random.below(draws++, static_cast<uint64_t>(n)));
  };
  for (int trial = 0; trial < 400; ++trial) {
    const bool wide = trial % 2 != 0;
    const CodeGrid grid = wide ? CodeGrid{DType::S16, 0x1p-10, 7, -32768, 32767}
                               : CodeGrid{DType::U8, 0x1p-4, 100, 0, 255};
    const int64_t n = 1 + below(trial % 5 == 0 ? 400 : 24);
    const int64_t span = int64_t{1} << below(wide ? 17 : 9);
    const int64_t base = grid.low + below(int64_t{grid.high} - grid.low - span + 2);
    Oracle oracle{{.centered = trial % 3 != 0}, {}};
    std::vector<int64_t> codes;
    for (int64_t i = 0; i < n; ++i) codes.push_back(base + below(span));
    for (const int64_t each : codes) oracle.q.push_back(each - grid.zero_point);
    while ((n << (oracle.op.shift + 1)) <= integer::Normalize::max_terms(grid.dtype)) {
      ++oracle.op.shift;
    }
    oracle.op.shift = static_cast<int>(below(oracle.op.shift + 1));
    oracle.op.epsilon = below(4) == 0 ? 0 : below(int64_t{1} << below(61));
    oracle.op.least = int64_t{1} << std::max<int64_t>(2 * oracle.op.shift, below(61));
    const std::vector<int64_t> y = run(with_ones(oracle.op, n), grid, codes);
    for (size_t i = 0; i < y.size(); ++i) {
      const long double exact = oracle.normalized(i);
      CAPTURE(trial);
      REQUIRE(std::fabs(static_cast<double>(static_cast<long double>(y[i]) - exact)) <=
              0.5 + std::fabs(static_cast<double>(exact)) * 0x1p-28);
    }
  }
}

TEST_CASE("normalize: sets of equal codes give the bias, and extremes do not overflow") {
  const CodeGrid grid{DType::U8, 1, 100, 0, 255};
  integer::Normalize op = with_ones({.shift = 10}, 7);
  op.least = int64_t{1} << 20;
  CHECK(run(op, grid, {9, 9, 9, 9, 9, 9, 9}) == std::vector<int64_t>(7, 0));
  op.centered = false;
  CHECK(run(op, grid, {100, 100, 100, 100, 100, 100, 100}) == std::vector<int64_t>(7, 0));
  const std::vector<int64_t> one = run(op, grid, {100, 100, 100, 255, 100, 100, 100});
  CHECK(one[3] == std::lround(65536 * std::sqrt(7.0)));
  const int64_t most = integer::Normalize::max_terms(DType::U16);
  std::vector<int64_t> codes(static_cast<size_t>(most), 0);
  codes[5] = 65535;
  const CodeGrid wide{DType::U16, 1, 0, 0, 65535};
  const std::vector<int64_t> y = run(with_ones({}, most), wide, codes);
  CHECK(y[5] == std::lround(65536 * std::sqrt(static_cast<double>(most - 1))));
  CHECK(y[6] == std::lround(-65536 / std::sqrt(static_cast<double>(most - 1))));
}

/// Returns six elements of that value.
template <class T>
static Tensor filled(T value) {
  return Tensor::of<T>({6}, std::vector<T>(6, value));
}

TEST_CASE("normalize: attributes that do not fit are refused") {
  const CodeGrid grid{DType::U8, 1, 100, 0, 255};
  const auto refusal = [&](const integer::Normalize& op, const Shape& shape) {
    test::ProgramBuilder b(Requantization::SingleRounding);
    const ProgramNodeId x = b.codes(shape, grid);
    const std::string text = error_text<GraphError>([&] { b.add(op, {x}, "y"); });
    return text.substr(text.rfind("): ") + 3);
  };
  const integer::Normalize good = with_ones({}, 6);
  const auto with = [&](const auto& change) {
    integer::Normalize op = good;
    change(op);
    return refusal(op, {2, 6});
  };
  CHECK(with([](auto& op) { op.groups = 4; }) == "groups must be a divisor of 6, got 4");
  CHECK(with([](auto& op) { op.groups = 0; }) == "groups must be a divisor of 6, got 0");
  CHECK(with([](auto& op) { op.shift = 30; }) == "shift must be within 0..29, got 30");
  CHECK(with([](auto& op) { op.shift = 20; }) ==
        "sets of u8 may have at most 4 elements with shift 20, got 6");
  CHECK(with([](auto& op) { op.epsilon = -1; }) == "epsilon must be within 0..2^60, got -1");
  CHECK(with([](auto& op) { op.shift = 2; }) == "least must be within 4^shift..2^60, got 1");
  CHECK(with([](auto& op) { op.signs = Tensor{}; }) == "signs must be s32[6], got f32[]");
  CHECK(with([](auto& op) { op.signs = filled(int32_t{2}); }) ==
        "signs must be -1, 0 or 1, got 2");
  CHECK(with([](auto& op) { op.scales = filled(0x1p-126f); }) ==
        "scales must be finite and at least 2^-110, got 1.1754944e-38");
  CHECK(with([](auto& op) { op.bias = filled(int32_t{0x7f000000}); }) ==
        "biases must be within 2^30, got 2130706432");
  integer::Normalize joint = good;
  joint.joint = true;
  CHECK(refusal(joint, {6}) == "x needs rank >= 2, got [6]");
}

/// A net of a norm between quantizers of activations, and a product.
Graph norm_net(uint64_t seed) {
  const Random random(seed, 21);
  uint64_t draws = 0;
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random.below(draws++, static_cast<uint64_t>(n)));
  };
  Graph graph;
  const EMA range{.track = Track::Range};
  const auto quantized = [&](NodeId x, const std::string& label, bool bytes) {
    const int bits = bytes || below(3) > 0 ? 8 : 16;
    FakeQuantize op{.bits = bits, .scale_mode = EMA{}};
    if (below(2) == 0) {
      op.range = CodeRange::Unsigned;
      op.scheme = Scheme::Affine;
      op.scale_mode = range;
    }
    return add_quantizer(graph, x, op, label);
  };
  const bool bytes = seed % 2 == 0;
  const int64_t groups = 1 + below(3);
  const int64_t channels = groups * (1 + below(5));
  Shape shape{3, 1 + below(6), channels};
  if (below(2) == 0) shape = Shape{3, 1 + below(4), 1 + below(4), channels};
  const NodeId x = quantized(graph.add(Input{.shape = shape}, {}, "x"), "x", bytes);
  const auto parameter = [&](const char* label) {
    return graph.add(Parameter{.shape = {channels}}, {}, label);
  };
  const auto norm = [&]() -> NodeId {
    const double eps = std::ldexp(1.0, -static_cast<int>(below(30)));
    switch (seed % 4) {
      case 0:
        return graph.add(LayerNorm{.eps = eps}, {x, parameter("n.gamma"), parameter("n.beta")},
                         "n");
      case 1:
        return graph.add(RmsNorm{.eps = eps}, {x, parameter("n.gamma")}, "n");
      case 2:
        return graph.add(GroupNorm{.groups = groups, .eps = eps},
                         {x, parameter("n.gamma"), parameter("n.beta")}, "n");
      default:
        return graph.add(L2Normalize{.eps = eps}, {x}, "n");
    }
  };
  const NodeId y = norm();
  NodeId last = quantized(y, "y", bytes);
  if (below(2) == 0) last = graph.add(Relu{}, {last});
  graph.set_outputs({last, y});
  return graph;
}

TEST_CASE("normalize: tape, program and its reference agree on random nets") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    CHECK(test::disagreement(test::Settled(norm_net(seed), seed), seed, test::Effort::Some) ==
          "");
  }
}

TEST_CASE("normalize: gammas without integers and sets that are too large are refused") {
  const auto refusal = [](const Shape& shape, bool computed, float first) {
    Graph graph;
    const FakeQuantize wide{.bits = 16, .scale_mode = Fixed{}};
    const NodeId x = add_quantizer(graph, graph.add(Input{.shape = shape}, {}, "x"), wide, "x");
    NodeId gamma = graph.add(Parameter{.shape = {shape[-1]}}, {}, "gamma");
    if (computed) gamma = graph.add(Abs{}, {gamma}, "computed");
    const NodeId y = graph.add(RmsNorm{}, {x, gamma}, "y");
    graph.set_outputs({add_quantizer(graph, y, wide, "y")});
    Parameters parameters(graph, 1);
    for (NodeId id : quantizers(graph)) set_qparams(graph, parameters, id, 0.05);
    parameters.at("gamma").values<float>()[0] = first;
    return error_text<GraphError>(
        [&] { (void)convert(graph, parameters, Requantization::SingleRounding); });
  };
  CHECK(refusal({1, 6}, false, 1) == "no error");
  CHECK(
      refusal({1, 6}, false, NAN) ==
      "cannot convert 1 node: RmsNorm %4 'y' (%2 'x.quantized' f32[1, 6], %3 'gamma' f32[6]): "
      "Parameter %3 'gamma': weight 0 is NaN: retrain from a state in which they were finite");
  CHECK(
      refusal({1, 6}, true, 1) ==
      "cannot convert 1 node: RmsNorm %5 'y' (%2 'x.quantized' f32[1, 6], %4 'computed' "
      "f32[6]): Abs %4 'computed' (%3 'gamma' f32[6]) is computed; a norm needs parameters or "
      "constants: give the norm a parameter of its own");
  CHECK(refusal({1, 16385}, false, 1) ==
        "cannot convert 1 node: RmsNorm %4 'y' (%2 'x.quantized' f32[1, 16385], %3 'gamma' "
        "f32[16385]): norms of codes in 16 bits may have at most 16384 elements in a set, got "
        "16385: normalize fewer elements at once");
}

TEST_CASE("normalize: gammas far below their betas, of 0 and below it") {
  integer::Normalize op = with_ones({.centered = false}, 5);
  const IntegerValue x{{DType::S8, {1, 5}}, {0.25}, 0, -128, 127};
  const std::vector<float> gamma = {-2, 0, 3e-9f, 1, 0}, beta = {1, 0.5f, -1, 0, 0};
  integer::set_numbers(op, x, {.eps = 0.5, .gamma = gamma, .beta = beta});
  CHECK(test::copied(op.signs.values<int32_t>()) == std::vector<int32_t>{-1, 0, 0, 1, 0});
  CHECK(test::copied(op.scales.values<float>()) ==
        std::vector<float>{2, 0x1p-15f, 0x1p-14f, 1, 0x1p-100f});
  CHECK(test::copied(op.bias.values<int32_t>()) ==
        std::vector<int32_t>{32768, 1 << 30, -(1 << 30), 0, 0});
  // 5 * 255 * 2^shift is below 2^30, and eps n^2 / s^2 = 200.
  CHECK(op.shift == 19);
  CHECK(op.epsilon == int64_t{200} << 38);
  CHECK(op.least == int64_t{1} << 38);
  integer::set_numbers(op, x, {.eps = 0.5, .limits = true});
  CHECK(op.epsilon == 0);
  CHECK(op.least == int64_t{20} << 38);  // eps^2 n / s^2 = 20
  CHECK(op.scales.values<float>()[0] == static_cast<float>(1 / std::sqrt(5.0)));
  integer::set_numbers(op, x, {.eps = 1e30});
  CHECK(op.shift == 0);
  CHECK(op.epsilon == int64_t{1} << 60);
}

TEST_CASE("normalize: exact steps have the gradients of the float op, and follow gamma") {
  int64_t rounded = 0;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    CAPTURE(seed);
    Graph graph = norm_net(seed);
    const NodeId y = graph.at("n");
    // Only the forward differs between both arithmetics: the norm is the last op.
    const NodeId weights = graph.add(Parameter{.shape = {graph[y].type.shape[-1]}}, {}, "w");
    const NodeId loss = graph.add(Mean{}, {graph.add(Mul{}, {y, weights})}, "loss");
    test::Settled first(graph, seed), second(graph, seed);
    Parameters &one = first.parameters, &two = second.parameters;
    Tape floats(graph, one, {.outputs = {y}, .roots = {loss}, .threads = 1});
    Tape integers(graph, two,
                  {.outputs = {y},
                   .roots = {loss},
                   .threads = 2,
                   .arithmetic = exact(Requantization::SingleRounding)});
    for (int step = 0; step < 3; ++step) {
      for (Tape* tape : {&floats, &integers}) {
        const Random random(seed, 9 + static_cast<uint64_t>(step));
        const auto x = tape->input<float>("x");
        for (size_t i = 0; i < x.size(); ++i) {
          x[i] = static_cast<float>(random.uniform(i) * 5 - 2);
        }
        tape->forward(mode::qat);
        tape->backward();
      }
      const auto from = floats.value<float>(y);
      const auto to = integers.value<float>(y);
      for (size_t i = 0; i < from.size(); ++i) {
        rounded += from[i] != to[i] ? 1 : 0;
        CHECK(std::fabs(from[i] - to[i]) <= 0x1p-14f);
      }
      for (const char* name : {"n.gamma", "n.beta"}) {
        if (!graph.find(name)) continue;
        CHECK(test::first_difference(two.at(name).gradients<float>(),
                                     one.at(name).gradients<float>()) == "");
        for (Parameters* each : {&one, &two}) {
          for (float& value : each->at(name).values<float>()) value = value * -0.5f + 0.25f;
        }
      }
    }
  }
  CHECK(rounded > 100);
}

TEST_CASE("normalize: codes are beside those of the float op") {
  int64_t beyond = 0, count = 0, unequal = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    CAPTURE(seed);
    Graph graph = norm_net(seed);
    test::Settled net(graph, seed);
    const std::vector<NodeId> outputs(graph.outputs().begin(), graph.outputs().end());
    const NodeId y = graph.at("y.quantized");
    Tape floats(graph, net.parameters, {.outputs = {y}, .threads = 1});
    Tape exact_tape(
        graph, net.parameters,
        {.outputs = {y}, .threads = 1, .arithmetic = exact(Requantization::SingleRounding)});
    const Random random(seed, 9);
    const auto a = floats.input<float>("x");
    const auto b = exact_tape.input<float>("x");
    for (size_t i = 0; i < a.size(); ++i) {
      a[i] = b[i] = static_cast<float>(random.uniform(i) * 5 - 2);
    }
    floats.forward(mode::eval);
    exact_tape.forward(mode::eval);
    const double scale = qparams(graph, net.parameters, y)[0].scale;
    const auto from = floats.value<float>(y);
    const auto to = exact_tape.value<float>(y);
    for (size_t i = 0; i < from.size(); ++i) {
      const double codes = std::fabs(double{from[i]} - double{to[i]}) / scale;
      beyond += codes > 1.5 ? 1 : 0;
      unequal += codes > 0.5 ? 1 : 0;
      ++count;
    }
  }
  CAPTURE(count);
  CAPTURE(unequal);
  CHECK(beyond == 0);
  CHECK(unequal * 50 < count);
}

}  // namespace
