// Each piece with an integer form at all levels of arithmetic, and two layers computed by hand.
#include "qtape/deploy/convert.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/program/session.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/small_nets.h"

using namespace qtape;

namespace {

const EMA range{.track = Track::Range};
const FakeQuantize affine{
    .range = CodeRange::Unsigned, .scheme = Scheme::Affine, .scale_mode = range};
const FakeQuantize symmetric{.range = CodeRange::Full, .scale_mode = EMA{}};
const FakeQuantize each{.axis = 0};

/// Its layers have 6 outputs.
struct PieceNet : test::Net {
  explicit PieceNet(const Shape& shape = {3, 6}, const std::string& label = "x")
      : Net(shape, label) {}
  NodeId layer(NodeId id, const std::string& label, const Op& weight = each, bool bias = true) {
    return Net::layer(id, 6, label, weight, bias);
  }
};

using Build = std::function<std::vector<NodeId>(PieceNet&)>;

void check_piece(const char* name, const Build& build) {
  PieceNet net;
  const std::vector<NodeId> outputs = build(net);
  CAPTURE(name);
  CHECK(test::disagreement({net.graph, 3}, 9, test::Effort::All, outputs) == "");
}

/// The input quantized by `op`, a layer, and codes of its accumulators.
Build layer_with(const Op& activation, const Op& weight, bool bias = true) {
  return [=](PieceNet& n) -> std::vector<NodeId> {
    const NodeId y = n.layer(n.quantized(n.x, activation, "a"), "fc", weight, bias);
    return {n.quantized(y, activation, "b"), y};
  };
}

}  // namespace

TEST_CASE("convert: layers with every kind of quantizer") {
  check_piece("affine, per channel", layer_with(affine, each));
  check_piece("affine, no bias", layer_with(affine, each, false));
  check_piece("symmetric, per tensor", layer_with(symmetric, FakeQuantize{}));
  check_piece("LSQ", layer_with(FakeQuantizeLSQ{.scheme = Scheme::Affine},
                                FakeQuantizeLSQ{.bits = 4, .axis = 0}));
  check_piece("PACT", layer_with(FakeQuantizePACT{},
                                 FakeQuantizePACT{.bits = 8, .range = CodeRange::Narrow}));
  check_piece("Fixed", layer_with(affine.with(&FakeQuantize::scale_mode, Fixed{}),
                                  each.with(&FakeQuantize::scale_mode, Fixed{})));
  check_piece("16 bits", layer_with(affine.with(&FakeQuantize::bits, 16), each));
  check_piece("16 bits, signed", layer_with(symmetric.with(&FakeQuantize::bits, 16), each));
  check_piece("2 bits", layer_with(affine, each.with(&FakeQuantize::bits, 2)));
}

TEST_CASE("convert: weights in columns, and limits after a layer") {
  check_piece("columns", [](PieceNet& n) -> std::vector<NodeId> {
    const NodeId w =
        n.graph.add(Parameter{.shape = {6, 5}, .initializer = init::KaimingNormal{}}, {}, "w");
    const NodeId product = n.add(MatMul{}, {n.quantized(n.x, affine, "a"),
                                            n.quantized(w, FakeQuantize{.axis = 1}, "w")});
    return {n.quantized(n.add(Relu{}, {product}), affine, "b")};
  });
  check_piece("limits", [](PieceNet& n) -> std::vector<NodeId> {
    const NodeId a = n.quantized(n.x, affine, "a");
    const NodeId relu = n.add(Relu{}, {n.layer(a, "one")});
    const NodeId clamp = n.add(Clamp{.low = 0, .high = 0.7}, {n.layer(a, "two")});
    const NodeId both =
        n.add(Relu{}, {n.add(Clamp{.low = -1, .high = 0.5}, {n.layer(a, "three")})});
    return {n.quantized(relu, symmetric, "b"),
            n.quantized(clamp, affine, "c"),
            n.quantized(both, affine, "d"),
            relu,
            clamp,
            both};
  });
  check_piece("codes", [](PieceNet& n) -> std::vector<NodeId> {
    const NodeId a = n.quantized(n.x, affine, "a");
    const NodeId s = n.quantized(n.x, symmetric, "s");
    const NodeId clamp = n.add(Clamp{.low = -0.3, .high = 0.7}, {a});
    return {n.layer(n.add(Relu{}, {a}), "one"), n.layer(n.add(Relu{}, {s}), "two"), clamp,
            n.quantized(clamp, symmetric, "c"), n.quantized(a, symmetric, "d")};
  });
}

TEST_CASE("convert: accumulators of codes of grids alike and far apart, in 8 and 16 bits") {
  for (int bits : {8, 9, 16}) {
    const FakeQuantize op = affine.with(&FakeQuantize::bits, bits);
    check_piece("residual", [&](PieceNet& n) -> std::vector<NodeId> {
      const NodeId a = n.quantized(n.x, op, "a");
      const NodeId b = n.quantized(n.layer(a, "fc"), op, "b");
      const NodeId sum = n.add(Add{}, {a, b});
      return {n.quantized(sum, op, "c"), n.quantized(n.add(Relu{}, {sum}), affine, "d")};
    });
    check_piece("twice, and of no negative codes", [&](PieceNet& n) -> std::vector<NodeId> {
      const NodeId a = n.quantized(n.x, op, "a");
      const NodeId b = n.add(Relu{}, {a});
      return {n.quantized(n.add(Add{}, {a, a}), op, "b"),
              n.quantized(n.add(Add{}, {b, b}), op, "c")};
    });
  }
  PieceNet n;
  const FakeQuantize fixed{.scale_mode = Fixed{}};
  const NodeId a = n.quantized(n.x, fixed, "a");
  const NodeId b = n.quantized(n.x, fixed, "b");
  const NodeId c = n.quantized(n.add(Add{}, {a, b}), fixed, "c");
  for (auto [s_a, s_b] : {std::pair(1e-6, 0.04), std::pair(0.05, 1e-9), std::pair(1.0, 1e-3)}) {
    Parameters parameters = n.with_scales({{a, s_a}, {b, s_b}, {c, 0.03}});
    CHECK(test::disagreement(n.graph, parameters, 4, test::Effort::All, {c}) == "");
  }
}

TEST_CASE(
    "convert: accumulators of 9-bit codes are shifted alike whatever range a Relu leaves") {
  PieceNet n;
  const FakeQuantize nine{
      .bits = 9, .range = CodeRange::Unsigned, .scheme = Scheme::Affine, .scale_mode = Fixed{}};
  const NodeId a = n.quantized(n.x, nine, "a");
  const NodeId b = n.quantized(n.x, nine, "b");
  const NodeId sum = n.add(Add{}, {n.add(Relu{}, {a}), n.add(Relu{}, {b})});
  const NodeId c = n.quantized(sum, nine, "c");
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Parameters parameters(n.graph, 1);
    set_qparams(n.graph, parameters, a, 0.011, 300);
    set_qparams(n.graph, parameters, b, 0.017, 290);
    set_qparams(n.graph, parameters, c, 0.014, 0);
    CHECK(test::disagreement(n.graph, parameters, seed, test::Effort::All, {c}) == "");
  }
}

TEST_CASE("convert: a layer of no inputs gives its biases, and one of no outputs nothing") {
  for (const auto& extents : {std::pair(0, 4), std::pair(4, 0)}) {
    const int k = extents.first;
    const int n = extents.second;
    const FakeQuantize fixed{.scale_mode = Fixed{}};
    test::Net net({3, k});
    const NodeId w = net.parameter({n, k}, "w");
    const NodeId bias = net.parameter({n}, "fc.bias");
    const NodeId x = net.quantized(net.x, fixed, "a"), v = net.quantized(w, fixed, "w");
    const NodeId y =
        net.add(AddBias{}, {net.add(MatMul{.transpose_b = true}, {x, v}), bias}, "fc");
    const NodeId b = net.quantized(y, fixed, "b");
    Parameters parameters = net.with_scales({{x, 0.125}, {v, 0.125}, {b, 0.125}});
    std::ranges::fill(parameters.at("fc.bias").values<float>(), 0.5f);
    CAPTURE(k);
    CHECK(test::disagreement(net.graph, parameters, 1, test::Effort::All, {b, y}) == "");
  }
}

TEST_CASE("convert: joins, slices, views and reductions") {
  check_piece("joins", [](PieceNet& n) -> std::vector<NodeId> {
    const NodeId a = n.quantized(n.x, affine, "a");
    const NodeId b = n.quantized(n.x, symmetric, "b");
    const NodeId sum = n.add(Relu{}, {n.add(Add{}, {a, b})});
    const NodeId accumulators = n.layer(a, "fc");
    const NodeId all = n.add(Concat{.axis = 1, .count = 4}, {a, accumulators, sum, b});
    return {n.quantized(n.add(Clamp{.low = -0.5, .high = 2}, {all}), affine, "c")};
  });
  check_piece("views", [](PieceNet& n) -> std::vector<NodeId> {
    const NodeId a = n.quantized(n.add(Reshape{.shape = {-1, 2, 3}}, {n.x}), affine, "a");
    const NodeId flat = n.add(Dropout{.rate = 0.5}, {n.add(Flatten{}, {a})});
    const NodeId accumulators = n.add(Reshape{.shape = {-1, 3, 2}}, {n.layer(flat, "fc")});
    const NodeId b = n.quantized(n.add(StopGradient{}, {accumulators}), affine, "b");
    return {b, n.layer(n.add(Flatten{}, {b}), "last"), n.add(Flatten{}, {b})};
  });
  check_piece("slices and reductions", [](PieceNet& n) -> std::vector<NodeId> {
    const NodeId a = n.quantized(n.x, affine, "a");
    const NodeId part = n.add(Slice{.axis = 1, .begin = -4, .end = 5}, {a});
    const NodeId cube = n.add(Reshape{.shape = {-1, 3, 2}}, {a});
    const NodeId max = n.add(Max{.axes = {1}}, {cube});
    const NodeId mean = n.add(Mean{.axes = {-1}, .keep_dims = true}, {cube});
    const NodeId sum = n.add(Sum{.axes = {1, 2}}, {cube});
    return {part,
            max,
            mean,
            sum,
            n.quantized(mean, affine, "b"),
            n.quantized(n.add(Relu{}, {sum}), symmetric, "c")};
  });
}

TEST_CASE("convert: integer outputs, and several inputs") {
  PieceNet n;
  const NodeId z = n.add(Input{.shape = {3, 6}}, {}, "z");
  const NodeId a = n.quantized(n.x, affine, "a");
  const NodeId b = n.quantized(z, symmetric, "b");
  const NodeId sum = n.quantized(n.add(Add{}, {a, b}), affine, "sum");
  const NodeId y = n.layer(sum, "fc");
  test::Settled of(n.graph, 3);
  const IntegerProgram program = of.program({.requantization = Requantization::DoubleRounding,
                                             .outputs = {y, sum, y},
                                             .integer_outputs = true});
  CHECK(program[program.outputs()[0]].value.type == TensorType{DType::S32, {3, 6}});
  CHECK(program[program.outputs()[1]].value.type == TensorType{DType::U8, {3, 6}});
  CHECK(program.outputs()[2] == program.outputs()[0]);
  CHECK(program.outputs()[1] == program.at("sum.quantized"));
  CHECK((program.find("x") && program.find("z") && program.find("fc")));
  const IntegerProgram floats =
      of.program({.requantization = Requantization::DoubleRounding, .outputs = {sum, sum, y}});
  CHECK(floats.outputs()[0] == floats.at("sum.quantized.value"));
  CHECK(floats[floats.outputs()[1]].label.empty());
  CHECK(floats.outputs()[2] == floats.at("fc.value"));
}

namespace {

/// x [3, 2] through weights {1, 2; -1, 3} of scale 1.
struct ByHand {
  PieceNet net{{3, 2}, "v"};
  NodeId a, w, y;

  ByHand(const FakeQuantize& input, const FakeQuantize& output, bool limited) {
    a = net.quantized(net.x, input.with(&FakeQuantize::scale_mode, Fixed{}), "a");
    y = net.Net::layer(a, 2, "fc", FakeQuantize{.scale_mode = Fixed{}});
    if (limited) y = net.add(Relu{}, {y});
    y = net.quantized(y, output.with(&FakeQuantize::scale_mode, Fixed{}), "y");
    w = net.graph.at("fc.weight.quantized");
  }

  std::vector<int64_t> run(Parameters& parameters, Requantization requantization,
                           std::vector<float> x, bool reference) {
    const IntegerProgram program =
        convert(net.graph, parameters,
                {.requantization = requantization, .outputs = {y}, .integer_outputs = true});
    IntegerSession session(program, {.reference = reference, .threads = 1});
    std::ranges::copy(x, session.input("v").begin());
    session.run();
    std::vector<int64_t> codes;
    for (int64_t i = 0; i < 6; ++i) codes.push_back(session.integer(program.outputs()[0], i));
    return codes;
  }
};

}  // namespace

TEST_CASE("convert: ties of a layer by hand, in each requantization") {
  ByHand hand(symmetric, symmetric, false);
  Parameters parameters(hand.net.graph, 1);
  parameters.set("fc.weight", Tensor::of<float>({2, 2}, std::vector<float>{1, 2, -1, 3}));
  set_qparams(hand.net.graph, parameters, hand.a, 0.5);
  set_qparams(hand.net.graph, parameters, hand.w, 1);
  set_qparams(hand.net.graph, parameters, hand.y, 2);
  // Codes {2, 0}, {6, 0} and {0, 1} give the accumulators {2, -2}, {6, -6} and {2, 3}. The
  // results are a quarter of these: 0.5 and -0.5, 1.5 and -1.5, 0.5 and 0.75.
  const std::vector<float> x = {1, 0, 3, 0, 0, 0.5};
  const std::vector<int64_t> even = {0, 0, 2, -2, 0, 1};
  const std::vector<int64_t> up = {1, 0, 2, -1, 1, 1};
  const std::vector<int64_t> away = {1, -1, 2, -2, 1, 1};
  for (bool reference : {true, false}) {
    CHECK(hand.run(parameters, Requantization::FloatMultiply, x, reference) == even);
    CHECK(hand.run(parameters, Requantization::OnnxQdq, x, reference) == even);
    CHECK(hand.run(parameters, Requantization::SingleRounding, x, reference) == up);
    CHECK(hand.run(parameters, Requantization::DoubleRounding, x, reference) == away);
  }
}

TEST_CASE(
    "convert: zero points, biases, infinities and a Relu by hand, alike in each requantization") {
  ByHand hand(affine, affine, true);
  Parameters parameters(hand.net.graph, 1);
  parameters.set("fc.weight", Tensor::of<float>({2, 2}, std::vector<float>{1, 2, -1, 3}));
  // Codes 6 and -8 on the grid of accumulators, 0.5.
  parameters.set("fc.bias", Tensor::of<float>({2}, std::vector<float>{3, -4}));
  set_qparams(hand.net.graph, parameters, hand.a, 0.5, 10);
  set_qparams(hand.net.graph, parameters, hand.w, 1);
  set_qparams(hand.net.graph, parameters, hand.y, 3, 100);
  constexpr float inf = std::numeric_limits<float>::infinity();
  // Minus the zero point: {-6, 8}, {-10, 200} and {245, -3}. Accumulators: {16, 22}, {396, 602}
  // and {245, -262}. A sixth of these: 2.67, 3.67, 66, 100.33, 40.83 and less than 0.
  const std::vector<float> x = {-3, 4, -inf, 100, inf, -1.5};
  const std::vector<int64_t> expected = {103, 104, 166, 200, 141, 100};
  for (auto requantization : requantization::values) {
    for (bool reference : {true, false}) {
      CHECK(hand.run(parameters, requantization, x, reference) == expected);
    }
  }
}

TEST_CASE("convert: scales below the floor are the floor at every level") {
  PieceNet n;
  const FakeQuantize fixed{.floor = 0x1p-6, .scale_mode = Fixed{}};
  const NodeId a = n.quantized(n.x, fixed, "a");
  const NodeId fc = n.layer(a, "fc", fixed.with(&FakeQuantize::axis, 0));
  const NodeId y = n.quantized(fc, symmetric.with(&FakeQuantize::floor, 0x1p-4), "y");
  n.graph.set_outputs({y});
  test::Settled of(n.graph, 3);
  for (const char* state : {"a.scale", "fc.weight.scale", "y.scale"}) {
    std::ranges::fill(of.parameters.at(state).values<float>(), 1e-15f);
  }
  CHECK(test::disagreement(n.graph, of.parameters, 9, test::Effort::All) == "");
  const IntegerProgram program = of.program();
  const auto scales = [&](const char* label) {
    return program[program.at(label)].value.scales;
  };
  CHECK(scales("a.quantized") == std::vector<double>{0x1p-6});
  CHECK(scales("fc") == std::vector<double>(6, 0x1p-12));
  CHECK(scales("y.quantized") == std::vector<double>{0x1p-4});
}

TEST_CASE("convert: functions of codes between layers are tables, alike at all levels") {
  const auto activation = [](Graph& graph, NodeId y, int kind) {
    switch (kind) {
      case 0:
        return graph.add(Tanh{}, {y});
      case 1:
        return graph.add(Gelu{}, {y});
      case 2:
        return graph.add(Sigmoid{}, {y});
      case 3:  // two functions of one code
        return graph.add(Mul{}, {y, graph.add(Sigmoid{}, {y})});
      case 4: {
        const NodeId size = graph.add(Affine{.offset = 1}, {graph.add(Abs{}, {y})});
        const NodeId part = graph.add(Reshape{.shape = {-1, 2, 4}}, {y});
        const NodeId sum = graph.add(Reshape{.shape = {-1, 8}},
                                     {graph.add(Add{}, {part, graph.add(Tanh{}, {part})})});
        return graph.add(Sub{}, {graph.add(Div{}, {y, size}), sum});
      }
      default:  // a chain, with limits and a view on the way
        y = graph.add(Clamp{.low = -1.5, .high = 2}, {graph.add(LeakyRelu{}, {y})});
        return graph.add(Neg{},
                         {graph.add(Reshape{.shape = {-1, 8}}, {graph.add(Tanh{}, {y})})});
    }
  };
  for (int bits : {8, 4, 12}) {
    for (int kind = 0; kind < 6; ++kind) {
      const FakeQuantize weight{.bits = std::min(bits, 8), .axis = 0};
      const FakeQuantize input{.bits = bits, .scale_mode = EMA{}};
      Graph graph;
      NodeId y = graph.add(Input{.shape = {9, 6}}, {}, "x");
      y = linear(
          graph, y,
          {.out = 8, .weight_quantizer = weight, .input_quantizer = input, .label = "a"});
      y = activation(graph, add_quantizer(graph, y, input, "sum"), kind);
      y = linear(
          graph, y,
          {.out = 5, .weight_quantizer = weight, .input_quantizer = input, .label = "b"});
      graph.set_outputs({y});
      test::Settled of(graph, 3);
      CAPTURE(bits);
      CAPTURE(kind);
      CHECK(test::disagreement(graph, of.parameters, 4, test::Effort::All) == "");
      const IntegerProgram program = of.program(Requantization::OnnxQdq);
      CHECK(std::ranges::count_if(program.nodes(), [](const IntegerNode& node) {
              return std::holds_alternative<integer::Lookup>(node.op);
            }) == 1);
    }
  }
}

TEST_CASE("convert: a function that has no value for a code is refused") {
  const FakeQuantize input{.scale_mode = Fixed{}};
  test::Net net;
  const NodeId a = net.quantized(net.x, input, "a");
  const NodeId b = net.quantized(net.add(Sqrt{}, {a}, "root"), input, "b");
  net.graph.set_outputs({b});
  Parameters parameters = net.with_scales({{a, 0.5}, {b, 0.5}});
  CHECK(
      test::error_text<GraphError>([&] { (void)convert(net.graph, parameters, {}); }) ==
      "cannot convert 1 node: FakeQuantize %5 'b.quantized' (%3 'root' f32[2, 3], %4 'b.scale' f32[1]): Sqrt %3 'root' (%2 'a.quantized' f32[2, 3]) is NaN for code -127 of a.quantized: limit its operand to values for which it is defined");
}

TEST_CASE("convert: codes of negative values do not matter where none come up") {
  const FakeQuantize input{.scale_mode = Fixed{}};
  test::Net net;
  const NodeId x = net.quantized(net.x, input, "x");
  const NodeId a = net.quantized(net.add(Relu{}, {x}), input, "a");
  const NodeId root = net.add(Sqrt{}, {net.add(Affine{.offset = 0.25}, {a})}, "root");
  const NodeId b = net.quantized(root, input, "b");
  net.graph.set_outputs({b});
  Parameters parameters = net.with_scales({{x, 0.5}, {a, 0.5}, {b, 0.5}});
  CHECK(test::disagreement(net.graph, parameters, 4, test::Effort::All) == "");
  // 0 has none either.
  const NodeId inverse =
      net.quantized(net.add(Log{}, {net.add(Affine{.offset = -0.25}, {a})}), input, "c");
  net.graph.set_outputs({inverse});
  CHECK(test::error_text<GraphError>([&] {
          (void)convert(net.graph, net.with_scales({{x, 0.5}, {a, 0.5}, {inverse, 0.5}}), {});
        }).find("is NaN for code -127") != std::string::npos);
}

TEST_CASE("convert: inputs keep the order of the graph, whichever is used first") {
  const FakeQuantize grid{.scale_mode = Fixed{}};
  test::Net net({2, 3}, "signal");
  const NodeId gate = net.add(Input{.shape = {2, 3}}, {}, "gate");
  const NodeId a = net.quantized(gate, grid, "a");
  const NodeId b = net.quantized(net.x, grid, "b");
  const NodeId c = net.quantized(net.add(Mul{}, {a, b}), grid, "c");
  net.graph.set_outputs({c});
  Parameters parameters = net.with_scales({{a, 0.5}, {b, 0.25}, {c, 0.125}});
  const Conversion made = convert_traced(net.graph, parameters, {});
  std::vector<std::string> inputs;
  for (const IntegerNode& node : made.program.nodes()) {
    if (std::holds_alternative<integer::Input>(node.op)) inputs.push_back(node.label);
  }
  CHECK(inputs == std::vector<std::string>{"signal", "gate"});
  CHECK(test::disagreement(net.graph, parameters, 2, test::Effort::All) == "");
}
