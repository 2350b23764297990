// Exact error messages of graphs that cannot be converted.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <functional>
#include <limits>

#include "qtape/engine/quantizers.h"
#include "qtape/integer/program/session.h"
#include "qtape/integer/rules/analysis.h"
#include "qtape/model/layers.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/integer_nets.h"

using namespace qtape;
using test::error_text;

namespace {

const FakeQuantize ema{.scale_mode = EMA{}};
const FakeQuantize each{.axis = 0};
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

struct Net {
  Graph graph;
  NodeId x = graph.add(Input{.shape = {2, 3}}, {}, "x");

  NodeId add(Op op, std::initializer_list<NodeId> operands, std::string label = "") {
    return graph.add(std::move(op), operands, std::move(label));
  }
  NodeId codes(const Op& op = ema) { return add_quantizer(graph, x, op, "a"); }
  NodeId layer(NodeId id, const std::string& label = "fc", const Op& weight = each) {
    return linear(graph, id, {.out = 3, .weight_quantizer = weight, .label = label});
  }
};

using Change = std::function<void(const Graph&, Parameters&)>;

/// Returns why the net built by `build` is refused, after it is settled and then changed.
std::string refusal(const std::function<NodeId(Net&)>& build, const Change& change = {}) {
  Net net;
  net.graph.set_outputs({build(net)});
  Parameters parameters(net.graph, 1);
  test::settle(net.graph, parameters, 1);
  if (change) change(net.graph, parameters);
  return error_text<GraphError>(
      [&] { (void)convert(net.graph, parameters, Requantization::FloatMultiply); });
}

}  // namespace

TEST_CASE("convert: graphs without outputs, quantizers or integers are refused") {
  Graph none;
  Parameters empty(none, 1);
  CHECK(error_text<GraphError>([&] {
          (void)convert(none, empty, Requantization::FloatMultiply);
        }) == "the graph names no outputs");
  CHECK(refusal([](Net& n) { return n.add(Relu{}, {n.x}); }) ==
        "the model has no quantizers: train it with them, or insert and calibrate them");
  CHECK(refusal([](Net& n) {
          n.codes();
          return n.x;
        }) ==
        "cannot convert 1 node: Input %0 'x': has no integers that could be an output: use a "
        "quantized output, or the accumulators of a product");
  CHECK(refusal([](Net& n) {
          const NodeId a = n.codes();
          return n.add(Add{}, {a, a}, "sum");
        }) ==
        "cannot convert 1 node: Add %3 'sum' (%2 'a.quantized' f32[2, 3], %2 'a.quantized' "
        "f32[2, 3]): is an output but has no integers of its own: quantize its output");
}

TEST_CASE("convert: operands without a grid are refused") {
  CHECK(refusal([](Net& n) { return n.layer(n.x); }) ==
        "cannot convert 1 node: MatMul %3 (%0 'x' f32[2, 3], %2 'fc.weight.quantized' f32[3, "
        "3]): Input %0 'x' is not quantized: quantize its output");
  CHECK(refusal([](Net& n) {
          const NodeId w = n.add(Parameter{.shape = {3, 3}}, {}, "w");
          return n.add(MatMul{}, {n.codes(), w}, "y");
        }) ==
        "cannot convert 1 node: MatMul %4 'y' (%3 'a.quantized' f32[2, 3], %1 'w' f32[3, 3]): "
        "Parameter %1 'w' is not quantized: quantize its output");
  CHECK(
      refusal([](Net& n) {
        const NodeId y =
            n.add(Add{}, {n.layer(n.codes(), "one"), n.layer(n.graph.at("a.quantized"), "two")},
                  "sum");
        return add_quantizer(n.graph, y, ema, "y");
      }) ==
      "cannot convert 1 node: Add %15 'sum' (%8 'one' f32[2, 3], %14 'two' f32[2, 3]): AddBias "
      "%8 'one' (%5 f32[2, 3], %7 'one.bias.quantized' f32[3]) is not quantized: quantize its "
      "output");
  CHECK(
      refusal([](Net& n) {
        const NodeId y = n.add(Softmax{.axis = 1}, {n.layer(n.codes())}, "p");
        return add_quantizer(n.graph, y, ema, "y");
      }) ==
      "cannot convert 1 node: Softmax %9 'p' (%8 'fc' f32[2, 3]): has no integer form: replace "
      "it with an op that has an integer form, or use an output before it");
}

TEST_CASE("convert: shapes and grids that have no integers are refused") {
  CHECK(refusal([](Net& n) {
          const NodeId a = n.codes();
          const NodeId b =
              add_quantizer(n.graph, n.add(Slice{.axis = 1, .end = 1}, {a}), ema, "b");
          return add_quantizer(n.graph, n.add(Add{}, {a, b}, "sum"), ema, "y");
        }) ==
        "cannot convert 1 node: Add %6 'sum' (%2 'a.quantized' f32[2, 3], %5 'b.quantized' "
        "f32[2, 1]): operands must have the same shape, got [2, 3] and [2, 1]: repeat the "
        "smaller one before it is quantized");
  CHECK(refusal([](Net& n) { return n.layer(n.codes(ema.with(&FakeQuantize::axis, 1))); }) ==
        "cannot convert 1 node: FakeQuantize %2 'a.quantized' (%0 'x' f32[2, 3], %1 'a.scale' "
        "f32[3]): has 3 scales; activations need one: quantize them per tensor");
  const FakeQuantize zero_points{.scheme = Scheme::Affine};
  CHECK(refusal([&](Net& n) { return n.layer(n.codes(), "fc", zero_points); })
            .ends_with(": weights must be symmetric: their zero point would multiply every "
                       "input: quantize the weights symmetrically to 2..8 bits, with one scale "
                       "or one per output"));
  const FakeQuantize wide{.bits = 9, .axis = 0};
  CHECK(refusal([&](Net& n) { return n.layer(n.codes(), "fc", wide); })
            .ends_with(": weights need codes within s8, got -255..255: quantize the weights "
                       "symmetrically to 2..8 bits, with one scale or one per output"));
  const FakeQuantize inner{.axis = 1};
  CHECK(refusal([&](Net& n) { return n.layer(n.codes(), "fc", inner); })
            .ends_with(
                ": weights need one scale or one per output, axis 0, got 3 scales: quantize "
                "the weights symmetrically to 2..8 bits, with one scale or one per output"));
  const auto other_dtype = [] {
    Graph graph;
    const NodeId x = graph.add(Input{.dtype = DType::F64, .shape = {2, 3}}, {}, "x");
    graph.set_outputs({add_quantizer(graph, x, FakeQuantize{.scale_mode = Fixed{}}, "a")});
    Parameters parameters(graph, 1);
    (void)convert(graph, parameters, Requantization::FloatMultiply);
  };
  CHECK(error_text<GraphError>(other_dtype) ==
        "cannot convert 1 node: FakeQuantize %2 'a.quantized' (%0 'x' f64[2, 3], %1 'a.scale' "
        "f64[1]): integers represent f32 values, got f64: build the graph in f32");
}

TEST_CASE("convert: products of what are no weights are refused for what they are") {
  CHECK(
      refusal([](Net& n) {
        const NodeId a = n.codes();
        return n.add(MatMul{.transpose_b = true}, {a, a}, "y");
      }) ==
      "cannot convert 1 node: MatMul %3 'y' (%2 'a.quantized' f32[2, 3], %2 'a.quantized' "
      "f32[2, 3]): both operands depend on inputs, but integer products need constant weights: "
      "use an output before it");
  CHECK(refusal([](Net& n) {
          const NodeId a = n.codes();
          const NodeId w = n.add(Parameter{.shape = {3, 2}}, {}, "w");
          return n.add(MatMul{}, {add_quantizer(n.graph, w, each, "w"), a}, "y");
        })
            .ends_with(
                ": weights must be operand 'b' of a product; here operand 'a' depends on no "
                "input: swap the operands"));
  CHECK(refusal([](Net& n) {
          const NodeId w = n.add(Parameter{.shape = {18}}, {}, "w");
          const NodeId q = add_quantizer(n.graph, w, FakeQuantize{}, "w");
          const NodeId shaped = n.add(Reshape{.shape = {3, 6}}, {q});
          return n.add(MatMul{}, {n.codes(), shaped}, "y");
        })
            .ends_with(
                ": weights are quantized as [18] and multiplied as [3, 6]: quantize them in "
                "the shape of the product"));
  CHECK(
      refusal([](Net& n) {
        const NodeId w = n.add(Parameter{.shape = {2, 3, 6}}, {}, "w");
        const NodeId q = add_quantizer(n.graph, w, FakeQuantize{}, "w");
        const NodeId x = n.add(Reshape{.shape = {2, 1, 3}}, {n.codes()});
        return n.add(MatMul{}, {x, q}, "y");
      })
          .ends_with(
              ": weights need rank 2, got [2, 3, 6]: reshape them before they are quantized"));
}

TEST_CASE("convert: operands that are quantized are not called unquantized") {
  CHECK(
      refusal([](Net& n) {
        const NodeId a = n.codes();
        const NodeId w = n.add(Parameter{.shape = {2, 3}}, {}, "w");
        return n.add(Add{}, {a, add_quantizer(n.graph, w, FakeQuantize{}, "w")}, "y");
      }) ==
      "cannot convert 1 node: Add %5 'y' (%2 'a.quantized' f32[2, 3], %4 'w.quantized' f32[2, "
      "3]): FakeQuantize %4 'w.quantized' (%3 'w' f32[2, 3]) depends on no input; only "
      "products and AddBias accept such operands: replace it with an op that has an integer "
      "form, or use an output before it");
  CHECK(
      refusal([](Net& n) {
        return n.layer(n.add(Clamp{.low = -1, .high = 1}, {n.codes()}, "limited"));
      })
          .ends_with(
              ": Clamp %3 'limited' (%2 'a.quantized' f32[2, 3]) limits codes but has no grid "
              "of its own: quantize its output"));
}

TEST_CASE("convert: accumulators have a limit of terms, slices have none") {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {1, (1 << 23) + 1}}, {}, "x");
  const NodeId a = add_quantizer(graph, x, ema, "a");
  const NodeId slice = graph.add(Slice{.axis = 1, .end = 1}, {a});
  const NodeId max = graph.add(Max{}, {a});
  const NodeId sum = graph.add(Sum{}, {a});
  const NodeId half = graph.add(Mean{}, {graph.add(Slice{.axis = 1, .begin = 1}, {a})});
  const NodeId lines = graph.add(Reshape{.shape = {1, (1 << 23) + 1, 1}}, {a});
  const NodeId windows = graph.add(AvgPool{.kernel = {(1 << 23) + 1}}, {lines});
  // Windows with 20 to 40 elements, whose means have no common divisor in range.
  const NodeId uneven = graph.add(
      AvgPool{
          .kernel = {40}, .stride = {1}, .padding = Padding::Same, .count_include_pad = false},
      {lines});
  const IntegerAnalysis analysis = analyze_integers(graph);
  const auto reason = [&](NodeId id) { return analysis.refusal(id).reason; };
  CHECK(reason(slice) == "");
  CHECK(reason(max) == "");
  CHECK(reason(sum) == "accumulators may have at most 2^23 terms, got 8388609");
  CHECK(reason(windows) == "windows of [8388609] need accumulators of more than 2^23 terms");
  CHECK(reason(uneven) == "windows of [40] need accumulators of more than 2^23 terms");
  CHECK(reason(half) == "");
  CHECK(analysis[half].kind == IntegerKind::Accumulators);
}

TEST_CASE("convert: numbers that are not there are refused") {
  const auto layer = [](Net& n) { return n.layer(n.codes()); };
  CHECK(refusal([](Net& n) { return n.layer(n.codes(FakeQuantize{})); }) ==
        "cannot convert 1 node: FakeQuantize %1 'a.quantized' (%0 'x' f32[2, 3]): takes its "
        "scale from each batch: use EMA or Fixed, and calibrate");
  CHECK(refusal(layer,
                [](const Graph&, Parameters& p) {
                  p.set("a.scale", Tensor::of<float>({1}, std::vector<float>{0}));
                }) ==
        "cannot convert 1 node: FakeQuantize %2 'a.quantized' (%0 'x' f32[2, 3], %1 'a.scale' "
        "f32[1]): has never observed any values: train or calibrate first");
  for (const auto& [value, text] : {std::pair(-0.05f, "-0.05"), {not_a_number, "nan"}}) {
    const auto damage = [v = value](const Graph&, Parameters& p) {
      p.at("a.scale").values<float>()[0] = v;
    };
    CHECK(
        refusal(layer, damage) ==
        fmt::format(
            "cannot convert 1 node: FakeQuantize %2 'a.quantized' (%0 'x' f32[2, 3], %1 "
            "'a.scale' f32[1]): no scale can be computed from its scale {}: train or calibrate "
            "first",
            text));
  }
  const FakeQuantize range{.scheme = Scheme::Affine, .scale_mode = EMA{.track = Track::Range}};
  CHECK(refusal([&](Net& n) { return n.layer(n.codes(range)); },
                [](const Graph&, Parameters& p) {
                  p.at("a.range").values<float>()[0] = 3;
                  p.at("a.range").values<float>()[1] = -1;
                })
            .ends_with(
                ": no scale can be computed from its range 3 to -1: train or calibrate first"));
  CHECK(refusal(layer,
                [](const Graph&, Parameters& p) {
                  p.at("fc.weight").values<float>()[4] = not_a_number;
                }) ==
        "cannot convert 1 node: FakeQuantize %4 'fc.weight.quantized' (%3 'fc.weight' f32[3, "
        "3]): weight 4 is NaN: retrain from a state in which they were finite");
  CHECK(refusal(layer,
                [](const Graph&, Parameters& p) {
                  p.at("fc.bias").values<float>()[2] = not_a_number;
                }) ==
        "cannot convert 1 node: AddBias %8 'fc' (%5 f32[2, 3], %7 'fc.bias.quantized' f32[3]): "
        "bias 2 is NaN: retrain from a state before it became NaN");
  const auto folded = [](Net& n) {
    return linear(
        n.graph, n.codes(),
        {.out = 3, .weight_quantizer = each, .label = "fc", .folded_norm = BatchNorm{}});
  };
  CHECK(refusal(folded) == "no error");
  CHECK(refusal(folded,
                [](const Graph&, Parameters& p) {
                  p.at("fc.beta").values<float>()[1] = not_a_number;
                }) ==
        "cannot convert 1 node: FoldBias %11 'fc.bias' (%5 'fc.beta' f32[3], %6 "
        "'fc.running_mean' f32[3], %8 f32[3]): bias 1 is NaN: retrain from a state before it "
        "became NaN");
  const FakeQuantize fixed{.scale_mode = Fixed{}};
  const FakeQuantize affine = fixed.with(&FakeQuantize::scheme, Scheme::Affine);
  for (float zero_point :
       {3.5f, 128.0f, -128.0f, not_a_number, std::numeric_limits<float>::infinity()}) {
    CHECK(
        refusal([&](Net& n) { return n.layer(n.codes(affine)); },
                [&](const Graph&, Parameters& p) {
                  p.at("a.zero_point").values<float>()[0] = zero_point;
                }) ==
        fmt::format("cannot convert 1 node: FakeQuantize %3 'a.quantized' (%0 'x' f32[2, 3], "
                    "%1 'a.scale' f32[1], %2 'a.zero_point' f32[1]): zero point of channel 0 "
                    "is {}; it must be one of the codes: set it with set_qparams or calibrate",
                    zero_point));
  }
  CHECK(
      refusal([&](Net& n) { return n.layer(n.codes(), "fc", fixed); },
              [](const Graph&, Parameters& p) {
                p.set("fc.weight.scale", Tensor::of<float>({1}, std::vector<float>{0}));
              }) ==
      "cannot convert 1 node: FakeQuantize %5 'fc.weight.quantized' (%3 'fc.weight' f32[3, 3], "
      "%4 'fc.weight.scale' f32[1]): scale of channel 0 is 0; set it with set_qparams or "
      "calibrate: train or calibrate first");
}

TEST_CASE("convert: all that is wrong comes in one message") {
  const std::string text = refusal(
      [](Net& n) {
        const NodeId a = n.codes();
        const NodeId one = add_quantizer(n.graph, n.layer(a, "one"), FakeQuantize{}, "b");
        const NodeId two = n.add(Softmax{.axis = 1}, {n.layer(one, "two")}, "softmax");
        return add_quantizer(n.graph, two, ema, "c");
      },
      [](const Graph&, Parameters& p) {
        p.at("one.weight").values<float>()[0] = not_a_number;
        p.at("two.bias").values<float>()[1] = not_a_number;
      });
  CHECK(
      text ==
      "cannot convert 4 nodes: FakeQuantize %4 'one.weight.quantized' (%3 'one.weight' f32[3, "
      "3]): weight 0 is NaN: retrain from a state in which they were finite; FakeQuantize %9 "
      "'b.quantized' (%8 'one' f32[2, 3]): takes its scale from each batch: use EMA or Fixed, "
      "and calibrate; AddBias %15 'two' (%12 f32[2, 3], %14 'two.bias.quantized' f32[3]): bias "
      "1 is NaN: retrain from a state before it became NaN; Softmax %16 'softmax' (%15 'two' "
      "f32[2, 3]): has no integer form: replace it with an op that has an integer form, or use "
      "an output before it");
}

TEST_CASE("convert: NaN stops a run and names its element, infinities go to the ends") {
  Net n;
  const NodeId y = n.layer(n.codes());
  n.graph.set_outputs({y});
  Parameters parameters(n.graph, 1);
  test::settle(n.graph, parameters, 1);
  const IntegerProgram program = convert(n.graph, parameters, Requantization::FloatMultiply);
  const std::string expected =
      "Quantize %1 'a.quantized' (%0 'x' f32[2, 3]): element 4 of the input is NaN, which has "
      "no code";
  for (bool reference : {true, false}) {
    IntegerSession session(program, {.reference = reference, .kept = KeptValues::Codes});
    const auto x = session.input("x");
    std::ranges::fill(x, 0.0f);
    x[4] = not_a_number;
    CHECK(error_text<GraphError>([&] { session.run(); }) == expected);
    x[4] = std::numeric_limits<float>::infinity();
    x[5] = -x[4];
    session.run();
    CHECK(session.integer(program.at("a.quantized"), 4) == 127);
    CHECK(session.integer(program.at("a.quantized"), 5) == -127);
  }
  Verifier verifier(n.graph, parameters, {.batch = 2});
  std::ranges::fill(verifier.input(), 0.0f);
  verifier.input()[4] = not_a_number;
  CHECK(error_text<GraphError>([&] { verifier.run(2); }) == expected);
}

TEST_CASE("convert: a verifier takes models of several inputs, and sound options") {
  Net n;
  const NodeId z = n.graph.add(Input{.shape = {2, 3}}, {}, "z");
  const NodeId b = add_quantizer(n.graph, z, ema, "b");
  const NodeId y = add_quantizer(n.graph, n.add(Add{}, {n.codes(), b}), ema, "y");
  n.graph.set_outputs({y});
  Parameters parameters(n.graph, 1);
  test::settle(n.graph, parameters, 1);
  const auto error = [&](const VerifyOptions& options) {
    return error_text<ArgumentError>([&] { Verifier(n.graph, parameters, options); });
  };
  CHECK(error({.batch = 0}) == "batch must be at least 1, got 0");
  Verifier verifier(n.graph, parameters, {.batch = 2});
  REQUIRE(verifier.inputs().size() == 2);
  CHECK(error_text<ArgumentError>([&] { (void)verifier.input(2); }) ==
        "the program has 2 inputs, not input 2");
  for (size_t i = 0; i < 2; ++i) test::fill_wild(verifier.input(i), i + 1);
  verifier.run(2);
  const auto first = std::vector(verifier.output(Level::Backend).begin(),
                                 verifier.output(Level::Backend).end());
  CHECK(verifier.mismatches() == 0);
  // Each input is used at every level.
  for (size_t i = 0; i < 2; ++i) {
    CAPTURE(i);
    const std::vector<float> before(verifier.input(i).begin(), verifier.input(i).end());
    test::fill_wild(verifier.input(i), i + 11);
    verifier.run(2);
    CHECK(!std::ranges::equal(verifier.output(Level::Backend), first));
    CHECK(verifier.mismatches() == 0);
    std::ranges::copy(before, verifier.input(i).begin());
  }
}
