// Exact error messages of graphs that cannot be converted.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <functional>
#include <limits>

#include "qtape/integer/program/session.h"
#include "qtape/integer/rules/analysis.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/small_nets.h"

using namespace qtape;
using test::error_text;

namespace {

const FakeQuantize ema{.scale_mode = EMA{}};
const FakeQuantize fixed{.scale_mode = Fixed{}};
const FakeQuantize each{.axis = 0};
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

struct SmallNet : test::Net {
  NodeId codes(const Op& op = ema) { return quantized(x, op, "a"); }
  NodeId layer(NodeId id, const std::string& label = "fc", const Op& weight = each) {
    return Net::layer(id, 3, label, weight);
  }
};

using Build = std::function<NodeId(SmallNet&)>;
using Change = std::function<void(const Graph&, Parameters&)>;

/// Returns why the net built by `build` is refused, after it is settled and then changed.
std::string refusal(const Build& build, const Change& change = {}) {
  SmallNet net;
  net.graph.set_outputs({build(net)});
  test::Settled of(net.graph, 1);
  if (change) change(of.graph, of.parameters);
  return error_text<GraphError>([&] { (void)of.program(); });
}

/// Checks the text of a refusal.
void refused(const std::string& text, const Build& build, const Change& change = {}) {
  CHECK(refusal(build, change) == text);
}
/// Checks the text after the node.
void refused_because(const std::string& reason, const Build& build, const Change& change = {}) {
  const std::string text = refusal(build, change);
  CAPTURE(text);
  CHECK(text.ends_with(": " + reason));
}

/// A change of one element of a parameter or state.
Change with(const char* name, size_t index, float value) {
  return [=](const Graph&, Parameters& p) { p.at(name).values<float>()[index] = value; };
}
/// A change of a scale to one that was never observed.
Change without_scale(const char* name) {
  return [=](const Graph&, Parameters& p) {
    p.set(name, Tensor::of<float>({1}, std::array{0.0f}));
  };
}

}  // namespace

TEST_CASE("convert: graphs without outputs, quantizers or integers are refused") {
  Graph none;
  Parameters empty(none, 1);
  CHECK(error_text<GraphError>([&] { (void)convert(none, empty, {}); }) ==
        "the graph names no outputs");
  refused("the model has no quantizers: train it with them, or add them by qtape calibrate",
          [](SmallNet& n) { return n.add(Relu{}, {n.x}); });
  refused(
      "cannot convert 1 node: Input %0 'x': has no integers that could be an output: use a quantized output, or the accumulators of a product",
      [](SmallNet& n) {
        n.codes();
        return n.x;
      });
  refused(
      "cannot convert 1 node: Add %3 'sum' (%2 'a.quantized' f32[2, 3], %2 'a.quantized' f32[2, 3]): is an output but has no integers of its own: quantize its output",
      [](SmallNet& n) {
        const NodeId a = n.codes();
        return n.add(Add{}, {a, a}, "sum");
      });
}

TEST_CASE("convert: operands without a grid are refused") {
  refused(
      "cannot convert 1 node: MatMul %3 (%0 'x' f32[2, 3], %2 'fc.weight.quantized' f32[3, 3]): Input %0 'x' is not quantized: quantize its output",
      [](SmallNet& n) { return n.layer(n.x); });
  refused(
      "cannot convert 1 node: MatMul %4 'y' (%3 'a.quantized' f32[2, 3], %1 'w' f32[3, 3]): Parameter %1 'w' is not quantized: quantize its output",
      [](SmallNet& n) {
        const NodeId w = n.parameter({3, 3}, "w");
        return n.add(MatMul{}, {n.codes(), w}, "y");
      });
  refused(
      "cannot convert 1 node: Add %15 'sum' (%8 'one' f32[2, 3], %14 'two' f32[2, 3]): AddBias %8 'one' (%5 f32[2, 3], %7 'one.bias.quantized' f32[3]) is not quantized: quantize its output",
      [](SmallNet& n) {
        const NodeId one = n.layer(n.codes(), "one");
        const NodeId two = n.layer(n.graph.at("a.quantized"), "two");
        return n.quantized(n.add(Add{}, {one, two}, "sum"), ema, "y");
      });
  refused(
      "cannot convert 1 node: Softmax %9 'p' (%8 'fc' f32[2, 3]): has no integer form: replace it with an op that has an integer form, or end the model before it",
      [](SmallNet& n) {
        return n.quantized(n.add(Softmax{.axis = 1}, {n.layer(n.codes())}, "p"), ema, "y");
      });
}

TEST_CASE("convert: shapes and grids that have no integers are refused") {
  refused(
      "cannot convert 1 node: Add %5 'sum' (%2 'a.quantized' f32[2, 3], %4 'b.quantized' f32[1, 3]): FakeQuantize %4 'b.quantized' (%3 'b' f32[1, 3]) has 3 scales; operands need one: quantize it per tensor",
      [](SmallNet& n) {
        const NodeId a = n.codes();
        const NodeId b = n.quantized(n.parameter({1, 3}, "b"), FakeQuantize{.axis = 1}, "b");
        return n.quantized(n.add(Add{}, {a, b}, "sum"), ema, "y");
      });
  refused(
      "cannot convert 1 node: FakeQuantize %2 'a.quantized' (%0 'x' f32[2, 3], %1 'a.scale' f32[3]): has 3 scales; activations need one: quantize them per tensor",
      [](SmallNet& n) { return n.layer(n.codes(ema.with(&FakeQuantize::axis, 1))); });
  const auto refused_weights = [](const std::string& reason, const FakeQuantize& weight) {
    refused_because(
        reason +
            ": quantize the weights symmetrically to 2..8 bits, with one scale or one per output",
        [&](SmallNet& n) { return n.layer(n.codes(), "fc", weight); });
  };
  refused_weights("weights must be symmetric: their zero point would multiply every input",
                  {.scheme = Scheme::Affine});
  refused_weights("weights need codes within s8, got -255..255", {.bits = 9, .axis = 0});
  refused_weights("weights need one scale or one per output, axis 0, got 3 scales",
                  {.axis = 1});
  test::Net other({2, 3}, "x", DType::F64);
  other.graph.set_outputs({other.quantized(other.x, fixed, "a")});
  Parameters parameters(other.graph, 1);
  CHECK(
      error_text<GraphError>([&] { (void)convert(other.graph, parameters, {}); }) ==
      "cannot convert 1 node: FakeQuantize %2 'a.quantized' (%0 'x' f64[2, 3], %1 'a.scale' f64[1]): integers represent f32 values, got f64: build the graph in f32");
}

TEST_CASE("convert: products of what are no weights are refused for what they are") {
  refused_because(
      "sums of 40000 products of up to 4294705156 may reach 2^47: quantize an operand to 8 bits",
      [](SmallNet& n) {
        const NodeId a = n.codes(ema.with(&FakeQuantize::bits, 16));
        const NodeId b =
            n.add(Upsample{.factor = {40000}}, {n.add(Reshape{.shape = {2, 1, 3}}, {a})});
        return n.add(MatMul{.transpose_a = true}, {b, b}, "y");
      });
  refused_because(
      "weights must be operand 'b' of a product; here operand 'a' depends on no input: swap the operands",
      [](SmallNet& n) {
        const NodeId a = n.codes();
        const NodeId w = n.parameter({3, 2}, "w");
        return n.add(MatMul{}, {n.quantized(w, each, "w"), a}, "y");
      });
  refused_because(
      "weights are quantized as [18] and multiplied as [3, 6]: quantize them in the shape of the product",
      [](SmallNet& n) {
        const NodeId q = n.quantized(n.parameter({18}, "w"), FakeQuantize{}, "w");
        const NodeId shaped = n.add(Reshape{.shape = {3, 6}}, {q});
        return n.add(MatMul{}, {n.codes(), shaped}, "y");
      });
  refused_because(
      "weights need rank 2, got [2, 3, 6]: reshape them before they are quantized",
      [](SmallNet& n) {
        const NodeId q = n.quantized(n.parameter({2, 3, 6}, "w"), FakeQuantize{}, "w");
        const NodeId y = n.add(Reshape{.shape = {2, 1, 3}}, {n.codes()});
        return n.add(MatMul{}, {y, q}, "y");
      });
}

TEST_CASE("convert: operands that are quantized are not called unquantized") {
  refused(
      "cannot convert 1 node: Add %5 'y' (%2 'a.quantized' f32[2, 3], %4 'w.quantized' f32[2, 3]): is an output but has no integers of its own: quantize its output",
      [](SmallNet& n) {
        const NodeId a = n.codes();
        const NodeId w = n.quantized(n.parameter({2, 3}, "w"), FakeQuantize{}, "w");
        return n.add(Add{}, {a, w}, "y");
      });
  refused_because(
      "Clamp %3 'limited' (%2 'a.quantized' f32[2, 3]) limits codes but has no grid of its own: quantize its output",
      [](SmallNet& n) {
        return n.layer(n.add(Clamp{.low = -1, .high = 1}, {n.codes()}, "limited"));
      });
}

TEST_CASE("convert: accumulators have a limit of terms, slices have none") {
  test::Net n({1, (1 << 23) + 1});
  const NodeId a = n.quantized(n.x, ema, "a");
  const NodeId slice = n.add(Slice{.axis = 1, .end = 1}, {a});
  const NodeId max = n.add(Max{}, {a});
  const NodeId sum = n.add(Sum{}, {a});
  const NodeId half = n.add(Mean{}, {n.add(Slice{.axis = 1, .begin = 1}, {a})});
  const NodeId lines = n.add(Reshape{.shape = {1, (1 << 23) + 1, 1}}, {a});
  const NodeId windows = n.add(AvgPool{.kernel = {(1 << 23) + 1}}, {lines});
  // Windows with 20 to 40 elements, whose means have no common divisor in range.
  const AvgPool mean{
      .kernel = {40}, .stride = {1}, .padding = Padding::Same, .count_include_pad = false};
  const NodeId uneven = n.add(mean, {lines});
  const IntegerAnalysis analysis = analyze_integers(n.graph);
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
  const Build layer = [](SmallNet& n) { return n.layer(n.codes()); };
  refused(
      "cannot convert 1 node: FakeQuantize %1 'a.quantized' (%0 'x' f32[2, 3]): takes its scale from each batch: use EMA or Fixed, and calibrate",
      [](SmallNet& n) { return n.layer(n.codes(FakeQuantize{})); });
  const std::string a =
      "cannot convert 1 node: FakeQuantize %2 'a.quantized' (%0 'x' f32[2, 3], %1 'a.scale' f32[1]): ";
  refused(a + "has never observed any values: train or calibrate first", layer,
          without_scale("a.scale"));
  for (const float value : {-0.05f, not_a_number}) {
    refused(
        a + fmt::format("no scale can be computed from its scale {}: train or calibrate first",
                        value),
        layer, with("a.scale", 0, value));
  }
  const FakeQuantize range{.scheme = Scheme::Affine, .scale_mode = EMA{.track = Track::Range}};
  refused_because(
      "no scale can be computed from its range 3 to -1: train or calibrate first",
      [&](SmallNet& n) { return n.layer(n.codes(range)); },
      [](const Graph&, Parameters& p) {
        p.set("a.range", Tensor::of<float>({2, 1}, std::array{3.0f, -1.0f}));
      });
  refused(
      "cannot convert 1 node: FakeQuantize %4 'fc.weight.quantized' (%3 'fc.weight' f32[3, 3]): weight 4 is NaN: retrain from a state in which they were finite",
      layer, with("fc.weight", 4, not_a_number));
  refused(
      "cannot convert 1 node: FakeQuantize %4 'fc.weight.quantized' (%3 'fc.weight' f32[3, 3]): weight 4 is infinite: retrain from a state in which they were finite",
      layer, with("fc.weight", 4, std::numeric_limits<float>::infinity()));
  refused(
      "cannot convert 1 node: AddBias %8 'fc' (%5 f32[2, 3], %7 'fc.bias.quantized' f32[3]): bias 2 is NaN: retrain from a state before it became NaN",
      layer, with("fc.bias", 2, not_a_number));
  const Build folded = [](SmallNet& n) {
    return linear(
        n.graph, n.codes(),
        {.out = 3, .weight_quantizer = each, .label = "fc", .folded_norm = BatchNorm{}});
  };
  refused("no error", folded);
  refused(
      "cannot convert 1 node: FoldBias %11 'fc.bias' (%5 'fc.beta' f32[3], %6 'fc.running_mean' f32[3], %8 f32[3]): bias 1 is NaN: retrain from a state before it became NaN",
      folded, with("fc.beta", 1, not_a_number));
  for (float zero_point :
       {3.5f, 128.0f, -128.0f, not_a_number, std::numeric_limits<float>::infinity()}) {
    refused(
        fmt::format(
            "cannot convert 1 node: FakeQuantize %3 'a.quantized' (%0 'x' f32[2, 3], %1 'a.scale' f32[1], %2 'a.zero_point' f32[1]): zero point of channel 0 is {}; it must be one of the codes: set it with set_qparams or calibrate",
            zero_point),
        [&](SmallNet& n) {
          return n.layer(n.codes(fixed.with(&FakeQuantize::scheme, Scheme::Affine)));
        },
        with("a.zero_point", 0, zero_point));
  }
  refused(
      "cannot convert 1 node: FakeQuantize %5 'fc.weight.quantized' (%3 'fc.weight' f32[3, 3], %4 'fc.weight.scale' f32[1]): scale of channel 0 is 0; set it with set_qparams or calibrate: train or calibrate first",
      [&](SmallNet& n) { return n.layer(n.codes(), "fc", fixed); },
      without_scale("fc.weight.scale"));
}

TEST_CASE("convert: all that is wrong comes in one message") {
  refused(
      "cannot convert 4 nodes: FakeQuantize %4 'one.weight.quantized' (%3 'one.weight' f32[3, 3]): weight 0 is NaN: retrain from a state in which they were finite; FakeQuantize %9 'b.quantized' (%8 'one' f32[2, 3]): takes its scale from each batch: use EMA or Fixed, and calibrate; AddBias %15 'two' (%12 f32[2, 3], %14 'two.bias.quantized' f32[3]): bias 1 is NaN: retrain from a state before it became NaN; Softmax %16 'softmax' (%15 'two' f32[2, 3]): has no integer form: replace it with an op that has an integer form, or end the model before it",
      [](SmallNet& n) {
        const NodeId one = n.quantized(n.layer(n.codes(), "one"), FakeQuantize{}, "b");
        const NodeId two = n.add(Softmax{.axis = 1}, {n.layer(one, "two")}, "softmax");
        return n.quantized(two, ema, "c");
      },
      [](const Graph&, Parameters& p) {
        p.at("one.weight").values<float>()[0] = not_a_number;
        p.at("two.bias").values<float>()[1] = not_a_number;
      });
}

TEST_CASE("convert: NaN stops a run and names its element, infinities go to the ends") {
  SmallNet n;
  n.graph.set_outputs({n.layer(n.codes())});
  test::Settled of(n.graph, 1);
  const IntegerProgram program = of.program();
  const std::string expected =
      "Quantize %1 'a.quantized' (%0 'x' f32[2, 3]): element 4 of the input is NaN, which has no code";
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
  Verifier verifier(n.graph, of.parameters, {.batch = 2});
  std::ranges::fill(verifier.input(), 0.0f);
  verifier.input()[4] = not_a_number;
  CHECK(error_text<GraphError>([&] { verifier.run(2); }) == expected);
}

TEST_CASE("convert: a verifier takes models of several inputs, and sound options") {
  SmallNet n;
  const NodeId b = n.quantized(n.add(Input{.shape = {2, 3}}, {}, "z"), ema, "b");
  n.graph.set_outputs({n.quantized(n.add(Add{}, {n.codes(), b}), ema, "y")});
  test::Settled of(n.graph, 1);
  const auto error = [&](const VerifyOptions& options) {
    return error_text<ArgumentError>([&] { Verifier(n.graph, of.parameters, options); });
  };
  CHECK(error({.batch = 0}) == "batch must be at least 1, got 0");
  Verifier verifier(n.graph, of.parameters, {.batch = 2});
  REQUIRE(verifier.inputs().size() == 2);
  CHECK(error_text<ArgumentError>([&] { (void)verifier.input(2); }) ==
        "the program has 2 inputs, not input 2");
  for (size_t i = 0; i < 2; ++i) test::fill_wild(verifier.input(i), i + 1);
  verifier.run(2);
  const auto first = test::copied(verifier.output(Level::Backend));
  CHECK(test::mismatch(verifier) == "");
  // Each input is used at every level.
  for (size_t i = 0; i < 2; ++i) {
    CAPTURE(i);
    const std::vector<float> before = test::copied(verifier.input(i));
    test::fill_wild(verifier.input(i), i + 11);
    verifier.run(2);
    CHECK(!std::ranges::equal(verifier.output(Level::Backend), first));
    CHECK(test::mismatch(verifier) == "");
    std::ranges::copy(before, verifier.input(i).begin());
  }
}

TEST_CASE("convert: answers that depend on other samples are refused") {
  test::Net net({4, 3});
  const FakeQuantize grid{.scale_mode = Fixed{}};
  const NodeId x = net.quantized(net.x, grid, "x");
  const NodeId mean =
      net.quantized(net.add(Mean{.axes = {0}, .keep_dims = true}, {x}, "mean"), grid, "mean");
  const NodeId y = net.quantized(net.add(Sub{}, {x, mean}), grid, "y");
  net.graph.set_outputs({y});
  const Parameters parameters = net.with_scales({{x, 0.5}, {mean, 0.25}, {y, 0.25}});
  CHECK(
      test::error_text<GraphError>([&] { (void)convert(net.graph, parameters, {}); })
          .ends_with("mixes the samples of the batch, so each output depends on other samples: "
                     "keep the samples along axis 0, and compute with the axes of a sample "
                     "alone"));
}

TEST_CASE("convert: values that depend on other samples are refused, however they arise") {
  const FakeQuantize grid{.scale_mode = Fixed{}};
  using Added = std::function<NodeId(test::Net&, NodeId)>;
  const std::pair<std::string, Added> cases[] = {
      {"first",
       [](test::Net& net, NodeId x) {
         return net.add(Slice{.axis = 0, .begin = 0, .end = 1}, {x}, "first");
       }},
      {"chosen",
       [](test::Net& net, NodeId x) {
         return net.add(Gather{.axis = 0, .indices = {0}}, {x}, "chosen");
       }},
      {"turned",
       [](test::Net& net, NodeId x) {
         return net.add(Transpose{.permutation = {1, 0}}, {x}, "turned");
       }},
      {"all", [](test::Net& net, NodeId x) {
         const NodeId rows = net.add(Reshape{.shape = {-1, 1, 4}}, {x});
         return net.add(Sub{}, {rows, x}, "all");
       }}};
  for (const auto& one : cases) {
    CAPTURE(one.first);
    test::Net net({2, 4});
    const NodeId x = net.quantized(net.x, grid, "x");
    net.graph.set_outputs({one.second(net, x)});
    const Parameters parameters = net.with_scales({{x, 0.5}});
    const std::string text =
        test::error_text<GraphError>([&] { (void)convert(net.graph, parameters, {}); });
    CHECK(text.find(fmt::format("'{}'", one.first)) != std::string::npos);
    CHECK(text.find("mixes the samples of the batch") != std::string::npos);
  }
}
