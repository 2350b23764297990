// FakeQuantizeBias: values compared with a plain formula, switches, gradients, errors.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "qtape/engine/plan_hooks.h"
#include "qtape/engine/quantizers.h"
#include "qtape/engine/tape.h"
#include "qtape/kernels/quantize/quantize.h"
#include "qtape/model/layers.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/op_run.h"

using namespace qtape;
using namespace qtape::kernels;
using test::error_text;
using test::random_values;

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
  return static_cast<T>(q * step);
}

bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}
bool same_bits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

/// b, x [3, k] and w [n, k], the latter two quantized, and the bias on their grid.
template <class T>
struct Bench {
  Graph graph;
  NodeId b, x, w, x_source, w_source, y;
  Parameters parameters;
  Tape tape;

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

  Bench(const Op& input, const Op& weight, int64_t n)
      : graph(build(input, weight, n)),
        b(graph.at("b")),
        x(graph.at("x")),
        w(graph.at("w")),
        x_source(graph.at("x.quantized")),
        w_source(graph.at("w.quantized")),
        y(graph.at("y")),
        parameters(graph, 3),
        tape(graph, parameters, {.roots = {y}, .threads = 1}) {
    const auto values = random_values(21, 4);
    std::ranges::transform(values, tape.template input<T>(x).begin(),
                           [](double v) { return static_cast<T>(v); });
  }

  std::span<T> bias() { return parameters.at("b").template values<T>(); }
  std::span<const T> value() const { return tape.template value<T>(y); }
  void set_bias(const std::vector<double>& values) {
    std::ranges::transform(values, bias().begin(), [](double v) { return static_cast<T>(v); });
  }

  /// True if y is the formula's value, with the scales that the quantizers report.
  bool on_grid() {
    const auto s_x = static_cast<T>(tape.qparams(x_source)[0].scale);
    const auto s_w = tape.qparams(w_source);
    for (size_t c = 0; c < bias().size(); ++c) {
      const auto s = static_cast<T>(s_w[s_w.size() == 1 ? 0 : c].scale);
      const T expected = expected_bias(bias()[c], s_x, s);
      if (std::isnan(expected) != std::isnan(value()[c])) return false;
      if (!std::isnan(expected) && expected != value()[c]) return false;
    }
    return true;
  }
  bool passes() {
    return std::ranges::equal(bias(), value(), [](T a, T c) { return same_bits(a, c); });
  }
};

const FakeQuantize fixed{.scale_mode = Fixed{}};
const FakeQuantize fixed_each{.axis = 0, .scale_mode = Fixed{}};

template <class T>
std::vector<T> rounded(const std::vector<double>& biases, double s_x, double s_w) {
  const FakeQuantize fine =
      fixed.with(&FakeQuantize::floor, double{std::numeric_limits<float>::min()});
  Bench<T> bench(fine, fine, static_cast<int64_t>(biases.size()));
  set_qparams(bench.graph, bench.parameters, bench.x_source, s_x);
  set_qparams(bench.graph, bench.parameters, bench.w_source, s_w);
  bench.set_bias(biases);
  bench.tape.forward(mode::eval);
  return {bench.value().begin(), bench.value().end()};
}

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
        CHECK(bench.on_grid());
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
  // Products of f64 scales that underflow.
  CHECK(bias_code(0.0, 1e-200, 1e-200) == 0);
  CHECK(bias_code(1.0, 1e-200, 1e-200) == most);
  CHECK(bias_value(most, 1e-200, 1e-200) == 0);
  CHECK(bias_value(bias_code(1.0, 1e200, 1e200), 1e200, 1e200) == 0);
}

TEST_CASE("bias: ties, huge and tiny numbers in the op itself") {
  const std::vector<double> biases = {0.0,      -0.0,      0.0625,       0.1875, -0.0625,
                                      -0.1875,  0.3,       1e30,         -3e8,   1e-30,
                                      infinity, -infinity, not_a_number, 5e-324};
  const auto check = [&]<class T>(T) {
    for (const auto& scales : std::vector<std::pair<double, double>>{
             {0.5, 0.25}, {0.1, 0.3}, {1e-12, 1e-12}, {2e-38, 2e-38}, {1e30, 1e4}}) {
      const double s_x = scales.first;
      const double s_w = scales.second;
      const std::vector<T> y = rounded<T>(biases, s_x, s_w);
      for (size_t i = 0; i < y.size(); ++i) {
        const T expected =
            expected_bias(static_cast<T>(biases[i]), static_cast<T>(s_x), static_cast<T>(s_w));
        CAPTURE(i);
        CAPTURE(s_x);
        CHECK((y[i] == expected || (std::isnan(y[i]) && std::isnan(expected))));
        const double code =
            bias_code(static_cast<T>(biases[i]), static_cast<T>(s_x), static_cast<T>(s_w));
        CHECK((code != 0 || !std::signbit(y[i])));
      }
    }
  };
  check(float{});
  check(double{});
  const std::vector<float> y = rounded<float>(biases, 0.5, 0.25);
  CHECK(y[2] == 0);
  CHECK(y[3] == 0.25f);
  CHECK(y[10] == static_cast<float>(most / 8));
  CHECK(std::isnan(y[12]));
}

TEST_CASE("bias: each channel has its own grid") {
  Bench<float> bench(fixed, fixed_each, 3);
  set_qparams(bench.graph, bench.parameters, bench.x_source, 0.5);
  const std::vector<QParams<double>> scales = {{1, 0}, {0.5, 0}, {0.25, 0}};
  set_qparams(bench.graph, bench.parameters, bench.w_source, scales);
  bench.set_bias({0.7, 0.7, 0.7});
  bench.tape.forward(mode::eval);
  CHECK(std::ranges::equal(bench.value(), std::vector<float>{0.5f, 0.75f, 0.75f}));
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
  // Only the bias uses the quantizers' values, so one buffer serves both.
  Bench<float> bench(FakeQuantize{}, FakeQuantize{}, 3);
  const auto& nodes = bench.tape.memory().nodes;
  CHECK(nodes[static_cast<size_t>(bench.x_source.index)].value.offset ==
        nodes[static_cast<size_t>(bench.w_source.index)].value.offset);
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
  const auto error = [&](std::initializer_list<NodeId> operands) {
    const std::string text =
        error_text<GraphError>([&] { (void)graph.add(FakeQuantizeBias{}, operands, "y"); });
    CHECK(graph == before);
    return text.substr(text.find("): ") + 3);
  };
  CHECK(error_text<GraphError>([&] {
          (void)graph.add(FakeQuantizeBias{}, {b, x, qw}, "y");
        }) ==
        "FakeQuantizeBias %10 'y' (%0 'b' f32[3], %1 'x' f32[4, 6], %4 'w.quantized' f32[3, "
        "6]): operand 'x' must be a quantizer, got Parameter");
  CHECK(error({b, qx, w}) == "operand 'w' must be a quantizer, got Parameter");
  CHECK(error({b, half, qw}) == "operand 'x' must be a quantizer, got Cast");
  CHECK(error({b, qw, qw}) == "operand 'x' must have one scale, got 3");
  CHECK(error({b, qx, wrong}) ==
        "operand 'w' must have one scale or 3, one for each element of 'b', got 6");
  CHECK(error({b, qx, wide}) == "w has scales of f64, b is f32");
  CHECK(error({b, wide, qw}) == "x has scales of f64, b is f32");
  CHECK(error({w, qx, qw}) == "b must be [n], got [3, 6]");
  CHECK(error({labels, qx, qw}) == "expected f32 or f64, got s32");
  CHECK(error({b, labels, qw}) == "x must be f32, f64, f16 or bf16, got s32");
  // f16 has scales of f32.
  const NodeId low = add_quantizer(graph, half, FakeQuantize{}, "low");
  (void)graph.add(FakeQuantizeBias{}, {b, low, qw}, "y");
}
