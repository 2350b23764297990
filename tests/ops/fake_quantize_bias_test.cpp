// FakeQuantizeBias on scales of quantizers, conditions that disable it, gradients, rejected
// operands. The table of ops has its values on given scales.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "qtape/engine/plan.h"
#include "qtape/engine/plan_hooks.h"
#include "qtape/engine/quantizers.h"
#include "qtape/engine/tape.h"
#include "qtape/kernels/quantize/quantize.h"
#include "qtape/model/layers.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/first_difference.h"
#include "qtape/tests/support/op_run.h"

using namespace qtape;
using namespace qtape::kernels;
using test::error_text;
using test::FirstDifference;
using test::random_values;
using test::Values;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr double most = 2147483647.0;

/// Independent implementation: remainders instead of a magic constant.
template <class T>
T expected_bias(T b, T s_x, T s_w) {
  if (std::isnan(b)) return b;
  const double step = static_cast<double>(s_x) * static_cast<double>(s_w);
  const double v = static_cast<double>(b) / step;
  double q = std::isinf(v) ? v : std::floor(v);
  if (!std::isinf(v)) {
    const double part = v - q;
    if (part > 0.5 || (part == 0.5 && std::fmod(q, 2) != 0)) q += 1;
  }
  q = std::min(std::max(q, -most), most);
  return static_cast<T>(q * step + 0.0);
}

/// b [n], x [3, 7] and w [n, 7], where x and w are quantized, and the bias on their grid.
template <class T>
struct Bench {
  static Graph build(const Op& input, const Op& weight, int64_t n) {
    Graph graph;
    const NodeId bias = graph.add(Parameter{.dtype = dtype_of<T>, .shape = {n}}, {}, "b");
    const NodeId left =
        graph.add(Input{.dtype = dtype_of<T>, .shape = {3, 7}, .batch = false}, {}, "x");
    const NodeId right = graph.add(Parameter{.dtype = dtype_of<T>, .shape = {n, 7}}, {}, "w");
    const NodeId one = add_quantizer(graph, left, input, "x");
    const NodeId each = add_quantizer(graph, right, weight, "w");
    graph.set_outputs({graph.add(FakeQuantizeBias{}, {bias, one, each}, "y")});
    return graph;
  }

  Bench(const Op& input, const Op& weight, int64_t n) : graph(build(input, weight, n)) {
    std::ranges::copy(test::numbers<T>(random_values(21, 4)),
                      tape.template input<T>("x").begin());
    // Channels with scales of their own.
    std::ranges::copy(test::numbers<T>(random_values(7 * n, 6)),
                      parameters.at("w").template values<T>().begin());
  }

  std::span<T> bias() { return parameters.at("b").template values<T>(); }
  std::span<const T> value() const { return tape.template value<T>(y); }
  void set_bias(const Values& values) {
    std::ranges::copy(test::numbers<T>(values), bias().begin());
  }
  /// Returns the first difference from the formula with the scales reported by the quantizers.
  std::string off_grid() {
    const auto s_x = static_cast<T>(tape.qparams(x_source)[0].scale);
    const auto s_w = tape.qparams(w_source);
    FirstDifference found;
    for (size_t c = 0; c < bias().size(); ++c) {
      const auto s = static_cast<T>(s_w[s_w.size() == 1 ? 0 : c].scale);
      found.compare(value()[c], expected_bias(bias()[c], s_x, s));
    }
    return found.text();
  }
  bool passes() { return std::ranges::equal(std::as_bytes(bias()), std::as_bytes(value())); }

  Graph graph;
  NodeId x_source = graph.at("x.quantized"), w_source = graph.at("w.quantized");
  NodeId y = graph.at("y");
  Parameters parameters{graph, 3};
  Tape tape{graph, parameters, {.roots = {y}, .threads = 1}};
};

template <class T>
void check_modes() {
  const std::vector<Op> weights = {FakeQuantize{},
                                   FakeQuantize{.axis = 0},
                                   FakeQuantize{.bits = 4, .axis = 0, .scale_mode = EMA{}},
                                   FakeQuantize{.scheme = Scheme::Affine},
                                   FakeQuantizeLSQ{.bits = 2, .axis = 0},
                                   FakeQuantizePACT{.range = CodeRange::Narrow}};
  const std::vector<Op> inputs = {
      FakeQuantize{},
      FakeQuantize{.scheme = Scheme::Affine, .scale_mode = EMA{.track = Track::Range}},
      FakeQuantizeLSQ{}, FakeQuantizePACT{}};
  for (const Op& input : inputs) {
    for (const Op& weight : weights) {
      Bench<T> bench(input, weight, 37);
      bench.set_bias(random_values(37, 9));
      for (const Mode& mode : {mode::qat, mode::eval}) {
        bench.tape.forward(mode);
        CHECK(bench.off_grid() == "");
        CHECK(!bench.passes());
        CHECK(bench.tape.status(bench.y).applied);
      }
    }
  }
}

}  // namespace

TEST_CASE("bias: values are the plain formula's, with all kinds of scales") {
  check_modes<float>();
  check_modes<double>();
}

TEST_CASE("bias: the code at ties, ends, infinities and NaN") {
  CHECK(bias_code(2.5, 1.0, 1.0) == 2);
  CHECK(bias_code(-3.5, 1.0, 1.0) == -4);
  CHECK(bias_code(0.375f, 0.5f, 0.25f) == 3);
  CHECK(bias_code(2147483646.5, 1.0, 1.0) == 2147483646.0);
  CHECK(bias_code(2147483647.5, 1.0, 1.0) == most);
  CHECK(bias_code(-1e300, 1e-3, 1e-3) == -most);
  CHECK(bias_code(infinity, 1.0, 1.0) == most);
  CHECK(bias_code(-infinity, 1.0, 1.0) == -most);
  CHECK(std::isnan(bias_code(not_a_number, 1.0, 1.0)));
  CHECK(!std::signbit(bias_code(-0.25, 1.0, 1.0)));
  CHECK(!std::signbit(bias_code(-0.0, 1.0, 1.0)));
  // Products of f64 scales that underflow or overflow.
  CHECK(bias_code(0.0, 1e-200, 1e-200) == 0);
  CHECK(bias_code(1.0, 1e-200, 1e-200) == most);
  CHECK(bias_value(most, 1e-200, 1e-200) == 0);
  CHECK(bias_value(bias_code(1.0, 1e200, 1e200), 1e200, 1e200) == 0);
}

TEST_CASE("bias: modes and switches that pass it through do so bit for bit") {
  Bench<float> bench(FakeQuantize{}, FakeQuantize{.axis = 0}, 5);
  bench.set_bias({0.1, -0.0, not_a_number, infinity, 1e-40});
  for (const Mode& mode : {mode::float_train, mode::observe, mode::float_eval}) {
    bench.tape.forward(mode);
    CHECK(bench.passes());
    CHECK(!bench.tape.status(bench.y).applied);
  }
  for (NodeId id : {bench.x_source, bench.w_source, bench.y}) {
    bench.tape.status(id).enabled = false;
    bench.tape.forward(mode::qat);
    CHECK(bench.passes());
    bench.tape.status(id).enabled = true;
    bench.tape.forward(mode::qat);
    CHECK(!bench.passes());
  }
}

TEST_CASE("bias: the gradient passes straight through, whatever was rounded or limited") {
  for (const Mode& mode : {mode::qat, mode::float_train}) {
    Bench<double> bench(FakeQuantizeLSQ{}, FakeQuantizeLSQ{.axis = 0}, 4);
    bench.set_bias({0.3, 1e300, -infinity, 0});
    bench.tape.forward(mode);
    const std::vector<double> dy = {1.5, -2, 0.25, 3};
    bench.tape.backward(bench.y, std::span<const double>(dy));
    CHECK(std::ranges::equal(bench.parameters.at("b").gradients<double>(), dy));
    CHECK(std::ranges::count(bench.parameters.at("w").gradients<double>(), 0.0) == 28);
    CHECK(bench.parameters.at("w.scale").gradients<double>()[0] == 0);
    CHECK(bench.parameters.at("x.scale").gradients<double>()[0] == 0);
  }
}

TEST_CASE("bias: a quantizer's value is not kept for it, and memory can be shared") {
  const auto run = [](bool share) {
    Graph graph;
    const NodeId x = graph.add(Input{.shape = {8, 64}}, {}, "x");
    const NodeId loss =
        graph.add(Mean{}, {linear(graph, x,
                                  {.out = 5,
                                   .weight_quantizer = FakeQuantize{.bits = 3, .axis = 0},
                                   .input_quantizer = FakeQuantize{.bits = 3}})});
    Parameters parameters(graph, 2);
    std::ranges::fill(parameters.at("layer.bias").values<float>(), 0.3f);
    Tape tape(
        graph, parameters,
        {.outputs = {loss, graph.at("layer.bias.quantized")}, .roots = {loss}, .threads = 1},
        PlanHooks{.share_memory = share});
    std::ranges::fill(tape.input<float>(x), 0.7f);
    tape.forward(mode::qat);
    tape.backward();
    const auto y = tape.value<float>("layer.bias.quantized");
    CHECK(std::ranges::count(y, 0.3f) < 5);
    return parameters.sha256();
  };
  CHECK(run(true) == run(false));
  // Only the bias uses the values of the quantizers, so they share one buffer.
  Bench<float> bench(FakeQuantize{}, FakeQuantize{}, 3);
  const auto& nodes = bench.tape.memory().nodes;
  CHECK(nodes[at(bench.x_source)].value.offset == nodes[at(bench.w_source)].value.offset);
}

TEST_CASE("bias: operands that have no such scales are refused") {
  Graph graph;
  const auto leaf = [&](const char* label, const Shape& shape, DType dtype = DType::F32) {
    return graph.add(Parameter{.dtype = dtype, .shape = shape}, {}, label);
  };
  const NodeId b = leaf("b", {3});
  const NodeId x = leaf("x", {4, 6});
  const NodeId w = leaf("w", {3, 6});
  const NodeId qx = add_quantizer(graph, x, FakeQuantize{}, "x");
  const NodeId qw = add_quantizer(graph, w, FakeQuantize{.axis = 0}, "w");
  const NodeId wrong = add_quantizer(graph, w, FakeQuantize{.axis = 1}, "wrong");
  const NodeId wide = add_quantizer(graph, leaf("d", {3, 6}, DType::F64), FakeQuantize{}, "d");
  const NodeId half = graph.add(Cast{.dtype = DType::F16}, {x}, "half");
  const NodeId labels = graph.add(Input{.dtype = DType::S32, .shape = {4}}, {}, "labels");
  const Graph before = graph;
  const std::vector<std::pair<std::array<NodeId, 3>, std::string>> rows = {
      {{b, x, qw},
       "FakeQuantizeBias %10 'y' (%0 'b' f32[3], %1 'x' f32[4, 6], %4 'w.quantized' f32[3, "
       "6]): operand 'x' must be a quantizer, got Parameter"},
      {{b, qx, w}, "operand 'w' must be a quantizer, got Parameter"},
      {{b, half, qw}, "operand 'x' must be a quantizer, got Cast"},
      {{b, qw, qw}, "operand 'x' must have one scale, got 3"},
      {{b, qx, wrong},
       "operand 'w' must have one scale or 3, one for each element of 'b', got 6"},
      {{b, qx, wide}, "w has scales of f64, b is f32"},
      {{b, wide, qw}, "x has scales of f64, b is f32"},
      {{w, qx, qw}, "b must be [n], got [3, 6]"},
      {{labels, qx, qw}, "expected f32 or f64, got s32"},
      {{b, labels, qw}, "x must be f32, f64, f16 or bf16, got s32"}};
  for (const auto& [operands, expected] : rows) {
    const auto& ids = operands;
    std::string text = error_text<GraphError>([&] {
      (void)graph.add(FakeQuantizeBias{}, {ids[0], ids[1], ids[2]}, "y");
    });
    if (!expected.starts_with("FakeQ")) text = text.substr(text.find("): ") + 3);
    CHECK(text == expected);
    CHECK(graph == before);
  }
  // The scales of f16 are f32.
  const NodeId low = add_quantizer(graph, half, FakeQuantize{}, "low");
  (void)graph.add(FakeQuantizeBias{}, {b, low, qw}, "y");
}
