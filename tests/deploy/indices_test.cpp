// Networks that begin with indices of rows of a table, and those that end in the index of the
// largest element, at all levels.
#include <doctest/doctest.h>

#include <array>
#include <cmath>

#include "qtape/deploy/convert.h"
#include "qtape/engine/quantizers.h"
#include "qtape/engine/tape.h"
#include "qtape/integer/program/session.h"
#include "qtape/integer/training/exact.h"
#include "qtape/model/layers.h"
#include "qtape/model/passes/insert_quantizers.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/integer_programs.h"
#include "qtape/tests/support/small_nets.h"
#include "qtape/tests/support/verified_models.h"

using namespace qtape;
using test::check_all;
using test::error_text;
using test::net;

namespace {

/// The index as floats, as answers are.
Value index_of(const Value& x, const ArgMax& op = {}) {
  return node(Cast{}, {node(op, {x}, "index")});
}

/// 64 samples of five words each, of vocabularies of these sizes.
data::Dataset words(const std::array<uint64_t, 5>& sizes = {20, 20, 20, 20, 20}) {
  const Random random(9, 1);
  std::vector<int32_t> indices(64 * 5);
  for (size_t i = 0; i < indices.size(); ++i) {
    indices[i] = static_cast<int32_t>(random.below(i, sizes[i % 5]));
  }
  data::Dataset set;
  set.add("words", Tensor::of<int32_t>({64, 5}, indices));
  return set;
}

/// Adds rows of a table that is a parameter, as many as there are indices.
NodeId looked_up(Graph& graph, NodeId indices, const Shape& table, const std::string& label) {
  const Parameter parameter{.shape = table, .initializer = init::KaimingNormal{}};
  const NodeId rows = graph.add(parameter, {}, label + ".weight");
  return graph.add(Embedding{}, {rows, indices}, label);
}

NodeId layer(Graph& graph, NodeId x, int64_t out, const std::string& label) {
  return linear(graph, x, {.out = out, .label = label});
}

NodeId flat_layer(Graph& graph, NodeId e) {
  return layer(graph, graph.add(Flatten{}, {e}), 3, "fc");
}

/// Returns a model of `build` applied to six numbers for each of five words, quantized and
/// calibrated.
Model text_net(const std::function<NodeId(Graph&, NodeId)>& build = flat_layer) {
  Graph graph;
  const NodeId x = graph.add(Input{.dtype = DType::S32, .shape = {1, 5}}, {}, "words");
  graph.set_outputs({build(graph, looked_up(graph, x, {20, 6}, "e"))});
  return quantized(Model(std::move(graph), 2), {}, words(), 64, 1);
}

/// Calls f(session) for the backend and the reference.
template <class F>
void in_sessions(const IntegerProgram& program, const F& f) {
  for (const bool reference : {false, true}) {
    IntegerSession session(program, {.reference = reference, .threads = 1});
    f(session);
  }
}

/// Returns the number of ops of type T.
template <class T>
int64_t ops_of(const IntegerProgram& program) {
  return std::ranges::count_if(program.nodes(), [](const IntegerNode& each) {
    return std::holds_alternative<T>(each.op);
  });
}

}  // namespace

TEST_CASE("indices: of the largest accumulator, without a quantizer before it") {
  const Model model = net([](const Value& h) { return index_of(linear(flatten(h), 7)); });
  check_all(model);
  const IntegerProgram program = model.integers(Requantization::SingleRounding);
  CHECK(ops_of<integer::ArgMax>(program) == 1);
  CHECK(ops_of<integer::Quantize>(program) == 1);
  CHECK(ops_of<integer::Requantize>(program) == 1);
  const IntegerProgram integers =
      convert(model.graph(), model.parameters(), {.integer_outputs = true});
  const IntegerValue& y = integers[integers.outputs()[0]].value;
  CHECK(y.type == TensorType{DType::S32, {1}});
  CHECK(y.scales == std::vector{1.0});
  CHECK(y.low == 0);
  CHECK(y.high == 6);
}

TEST_CASE("indices: classes of the positions of an image, along any axis") {
  for (const int axis : {-1, 1, 2}) {
    CAPTURE(axis);
    const auto index = [&](const Value& h, bool keep) {
      return index_of(h, {.axis = axis, .keep_dims = keep});
    };
    check_all(net([&](const Value& h) { return index(conv2d(h, 5, {1, 1}), axis == 1); }));
    check_all(net([&](const Value& h) { return index(max_pool(h, {2, 2}), axis != 1); }));
  }
}

TEST_CASE("indices: values without a grid of their own get a quantizer") {
  check_all(net([](const Value& h) { return index_of(relu(linear(flatten(h), 7))); }));
  check_all(net([](const Value& h) { return index_of(sigmoid(linear(flatten(h), 7))); }));
  check_all(net([](const Value& h) { return index_of(flatten(conv2d(h, 5, {1, 1}))); }));
  check_all(net([](const Value& h) {
    const Value rows = flatten(h);
    return index_of(linear(rows, 7) + linear(rows, 7));
  }));
}

TEST_CASE("indices: beside the values of which they are, and beside other outputs") {
  Network network;
  const Value x = network.input("x", {6, 6, 3});
  const Value h = relu(conv2d(x, 4, {3, 3}, {.label = "conv"}));
  const Value y = linear(flatten(h), 5, {.label = "fc"});
  const std::vector<Value> answers = {index_of(y), y, h};
  check_all(quantized(Model(answers, 2), {}, test::noise(), 64, 1));
}

TEST_CASE("indices: the first of equal elements, of codes and of values") {
  test::ProgramBuilder b;
  const ProgramNodeId q = b.codes({2, 3}, test::whole_grid(DType::U8, 0.5, 10));
  const ProgramNodeId of_codes = b.add(integer::ArgMax{}, {q}, "codes");
  // Values 2, 2 and 1 of the first row of codes.
  const ProgramNodeId sums =
      b.linear(q, {{1, 0, 0, 2, 0, 0, 0, 0, 1}, {1.0f, 0.5f, 1.0f}}, "sums");
  const ProgramNodeId of_sums = b.add(integer::ArgMax{}, {sums}, "values");
  const IntegerProgram program = b.of({of_codes, of_sums});
  in_sessions(program, [](IntegerSession& session) {
    std::ranges::copy(std::array{1.0f, 1.0f, 0.5f, -3.0f, -1.0f, -1.0f},
                      session.input("x").begin());
    session.run();
    CHECK(test::copied(session.value<int32_t>("codes")) == std::vector<int32_t>{0, 1});
    CHECK(test::copied(session.value<int32_t>("values")) == std::vector<int32_t>{0, 2});
  });
}

TEST_CASE("indices: ArgMax names the operands that it cannot take") {
  test::ProgramBuilder b;
  const ProgramNodeId x = b.add(integer::Input{.shape = {2, 0}}, {}, "x");
  const ProgramNodeId q = b.add(integer::Quantize{}, {x}, "q");
  const auto text = [&](ProgramNodeId of, int axis) {
    return error_text<GraphError>([&] { b.add(integer::ArgMax{{.axis = axis}}, {of}); });
  };
  CHECK(text(x, 0).ends_with("x must be codes or accumulators, got f32[2, 0]"));
  CHECK(text(q, 1).ends_with("axis 1 must have 1 to 2^31 - 1 elements, x is s8[2, 0]"));
  CHECK(text(q, 2).ends_with("axis 2 is out of range for rank 2"));
}

TEST_CASE("indices: they have no grid, and other integers are not cast") {
  const auto refusal = [](bool index) {
    Graph graph;
    const NodeId x = graph.add(Input{.shape = {1, 6}}, {}, "x");
    const NodeId q = add_quantizer(graph, x, FakeQuantize{.scale_mode = EMA{}}, "q");
    const NodeId from = index ? graph.add(ArgMax{.keep_dims = true}, {q}, "best") : q;
    const NodeId y = graph.add(Cast{}, {from}, "y");
    const FakeQuantize ema{.scale_mode = EMA{}};
    graph.set_outputs({add_quantizer(graph, y, ema, "last")});
    Parameters parameters(graph, 1);
    for (NodeId id : quantizers(graph)) set_qparams(graph, parameters, id, 0.05);
    return error_text<GraphError>(
        [&] { (void)convert(graph, parameters, Requantization::SingleRounding); });
  };
  CHECK(
      refusal(true) ==
      "cannot convert 1 node: FakeQuantize %6 'last.quantized' (%4 'y' f32[1, 1], %5 'last.scale' f32[1]): Cast %4 'y' (%3 'best' s32[1, 1]) is an index, which has no grid: use it as an output, or look up an Embedding");
  CHECK(
      refusal(false) ==
      "cannot convert 1 node: Cast %3 'y' (%2 'q.quantized' f32[1, 6]): has integers only as the f32 of an ArgMax: feed the model f32, or end the model before it");
}

TEST_CASE("indices: selected and permuted") {
  Network network;
  const Value x = network.input("x", {6, 6, 3});
  const Value index = index_of(conv2d(x, 4, {3, 3}, {.label = "conv"}), {.axis = 1});
  const Op ops[] = {Transpose{.permutation = {0, 2, 1}}, Slice{.axis = 2, .begin = 1, .end = 3},
                    Gather{.axis = 1, .indices = {3, 0}}};
  for (const Op& op : ops) {
    const Model model = quantized(Model(node(op, {index}), 2), {}, test::noise(), 64, 1);
    check_all(model);
    CHECK(test::mismatch(test::verified(model, Requantization::OnnxQdq, OnnxForm::Qdq)) == "");
  }
}

TEST_CASE("embedding: its rows are codes that the next layer multiplies") {
  const Model model = text_net();
  check_all(model, words());
  const IntegerProgram program = model.integers(Requantization::SingleRounding);
  CHECK(ops_of<integer::Embedding>(program) == 1);
  CHECK(ops_of<integer::Constant>(program) == 1);
  CHECK(ops_of<integer::Quantize>(program) == 0);
  CHECK(ops_of<integer::Requantize>(program) == 0);
  const IntegerValue& x = program[program.at("words")].value;
  CHECK(x.type == TensorType{DType::S32, {1, 5}});
  CHECK(x.low == 0);
  CHECK(x.high == 19);
}

TEST_CASE("embedding: means, largest values, sums of both and windows of words") {
  const auto check = [](const std::function<NodeId(Graph&, NodeId)>& build) {
    check_all(text_net(build), words());
  };
  check([](Graph& graph, NodeId e) {
    return layer(graph, graph.add(Mean{.axes = {1}}, {e}, "mean"), 3, "fc");
  });
  check([](Graph& graph, NodeId e) {
    const NodeId c = conv1d(graph, e, Conv1d{}, 3, {.out = 4, .label = "conv"});
    const NodeId most = graph.add(Max{.axes = {1}}, {graph.add(Relu{}, {c})}, "max");
    return layer(graph, most, 3, "fc");
  });
  check([](Graph& graph, NodeId e) {
    const NodeId gate = graph.add(Sigmoid{}, {e}, "gate");
    return flat_layer(graph, graph.add(Mul{}, {e, gate}, "gated"));
  });
}

TEST_CASE("embedding: one input of indices for several tables, and an input of floats beside") {
  Graph graph;
  const NodeId x = graph.add(Input{.dtype = DType::S32, .shape = {1, 5}}, {}, "words");
  const NodeId z = graph.add(Input{.shape = {1, 4}}, {}, "z");
  const auto rows = [&](int64_t count, const std::string& label) {
    return graph.add(Flatten{}, {looked_up(graph, x, {count, 3}, label)});
  };
  const NodeId joined =
      graph.add(Concat{.axis = 1, .count = 3}, {rows(30, "a"), rows(20, "b"), z});
  graph.set_outputs({layer(graph, joined, 3, "fc")});
  data::Dataset set = words();
  std::vector<float> values(64 * 4);
  test::fill_uniform(std::span(values), Random(3, 1), -1, 1);
  set.add("z", Tensor::of<float>({64, 4}, values));
  const Model model = quantized(Model(std::move(graph), 2), {}, set, 64, 1);
  check_all(model, set);
  const IntegerProgram program = model.integers(Requantization::FloatMultiply);
  CHECK(program[program.at("words")].value.high == 19);
}

/// Returns a net whose tables of 20, 7 and 3 rows look up parts of the words.
Model parts_net(const data::Dataset& set) {
  Graph graph;
  const NodeId x = graph.add(Input{.dtype = DType::S32, .shape = {1, 5}}, {}, "words");
  const auto rows = [&](int64_t count, NodeId part, const std::string& label) {
    return graph.add(Flatten{}, {looked_up(graph, part, {count, 4}, label)});
  };
  const NodeId a = rows(20, graph.add(Gather{.axis = 1, .indices = {4, 0, 4}}, {x}), "a");
  const NodeId b = rows(7, graph.add(Slice{.axis = 1, .begin = 1, .end = 2}, {x}), "b");
  const NodeId turned = graph.add(Reshape{.shape = {-1, 5, 1}}, {x});
  const NodeId c = rows(3, graph.add(Slice{.axis = 1, .begin = 2, .end = 4}, {turned}), "c");
  graph.set_outputs(
      {layer(graph, graph.add(Concat{.axis = 1, .count = 3}, {a, b, c}), 3, "fc")});
  return quantized(Model(std::move(graph), 2), {}, set, 64, 1);
}

TEST_CASE("embedding: tables of different sizes for parts of one input") {
  const data::Dataset set = words({20, 7, 3, 3, 20});
  const Model model = parts_net(set);
  check_all(model, set);
  const IntegerProgram program = model.integers(Requantization::FloatMultiply);
  CHECK(program[program.at("words")].value.high == 19);
  CHECK(largest_index(program, program.at("words")) == 2);
  in_sessions(program, [](IntegerSession& session) {
    const auto x = session.input<int32_t>("words");
    std::ranges::copy(std::vector<int32_t>{19, 6, 2, 2, 19}, x.begin());
    session.run();
    x[1] = 7;
    const std::string text = error_text<GraphError>([&] { session.run(); });
    CHECK(text.find("Embedding") == 0);
    CHECK(text.ends_with("element 0 is 7, expected an index within 0..6"));
  });
}

TEST_CASE("embedding: by the index of the largest element") {
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {1, 6, 6, 3}}, {}, "x");
  const NodeId h = layer(graph, graph.add(Flatten{}, {x}), 7, "fc1");
  const NodeId best = graph.add(ArgMax{}, {h}, "best");
  graph.set_outputs({layer(graph, looked_up(graph, best, {9, 5}, "e"), 4, "fc2")});
  check_all(quantized(Model(std::move(graph), 2), {}, test::noise(), 64, 1));
}

TEST_CASE("embedding: a session names the index that is outside of the table") {
  const Model model = text_net();
  const IntegerProgram program = model.integers(Requantization::FloatMultiply);
  in_sessions(program, [&](IntegerSession& session) {
    const auto x = session.input<int32_t>("words");
    std::ranges::fill(x, 19);
    session.run();
    const std::vector<float> before = test::copied(session.value<float>(program.outputs()[0]));
    for (const int32_t wrong : {-1, 20}) {
      x[3] = wrong;
      CHECK(error_text<GraphError>([&] { session.run(); }) ==
            fmt::format("Input %1 'words': element 3 is {}, expected an index within 0..19",
                        wrong));
    }
    x[3] = 19;
    session.run();
    CHECK(test::copied(session.value<float>(program.outputs()[0])) == before);
    CHECK(error_text<GraphError>([&] { (void)session.input("words"); }) ==
          "Input %1 'words': is s32[1, 5], accessed as f32");
  });
}

TEST_CASE("embedding: tapes on exact integers name the index, in all modes") {
  Model model = text_net();
  for (const Mode& each : {mode::eval, mode::qat}) {
    Tape tape(model.graph(), model.parameters(),
              {.threads = 1, .arithmetic = exact(Requantization::SingleRounding)});
    const auto x = tape.input<int32_t>("words");
    std::ranges::fill(x, 3);
    tape.forward(each);
    x[4] = 20;
    CHECK(error_text<GraphError>([&] {
            tape.forward(each);
          }).find("index 20 at position 4 is outside the table") != std::string::npos);
  }
}

TEST_CASE("embedding: what it cannot look up is refused") {
  const auto refusal = [](bool computed) {
    Graph graph;
    const FakeQuantize ema{.scale_mode = EMA{}};
    const NodeId x = graph.add(Input{.shape = {1, 6}}, {}, "x");
    const NodeId best = graph.add(ArgMax{}, {add_quantizer(graph, x, ema, "q")}, "best");
    const NodeId table = graph.add(Parameter{.shape = {5, 3}}, {}, "table");
    graph.set_outputs({graph.add(Embedding{}, {computed ? x : table, best}, "e")});
    return error_text<GraphError>([&] {
      const Graph ready = complete_quantizers(graph, ema);
      Parameters parameters(ready, 1);
      (void)convert(ready, parameters, Requantization::SingleRounding);
    });
  };
  CHECK(refusal(false).find(
            "is up to 5, the table has 5 rows: use a table with a row for each index") !=
        std::string::npos);
  CHECK(refusal(true).find("its table depends on an input, but integers need a constant table: "
                           "use a Parameter or a Constant") != std::string::npos);
}

TEST_CASE("embedding: programs name operands that are no table or no indices") {
  test::ProgramBuilder b;
  const ProgramNodeId q = b.codes({4, 3}, test::whole_grid(DType::U8, 0.5, 10));
  const auto text = [&](ProgramNodeId table, ProgramNodeId indices) {
    return error_text<GraphError>([&] { b.add(integer::Embedding{}, {table, indices}); });
  };
  const ProgramNodeId x = b.add(integer::Input{.shape = {4, 2}, .indices = 4}, {}, "few");
  const ProgramNodeId y = b.add(integer::Input{.shape = {4, 2}, .indices = 5}, {}, "many");
  const ProgramNodeId sums = b.add(integer::Sum{.axes = {1}}, {q});
  CHECK(text(q, x) == "no error");
  CHECK(text(q, y) == "no error");
  CHECK(text(q, sums).find("the second operand must be indices, or s32 within 0..3, got s32[4] "
                           "within ") != std::string::npos);
  CHECK(
      text(q, q).ends_with("the second operand must be indices, or s32 within 0..3, got u8[4, "
                           "3] within 0..255"));
  CHECK(
      text(q, ProgramNodeId{0})
          .ends_with("the second operand must be indices, or s32 within 0..3, got f32[4, 3]"));
  CHECK(text(x, x).ends_with("the table must be codes, got s32[4, 2]"));
  const auto input = [&](int64_t indices) {
    return error_text<GraphError>(
        [&] { b.add(integer::Input{.shape = {4}, .indices = indices}, {}, "other"); });
  };
  CHECK(input(-1).ends_with("indices must be in 0..2^31 - 1, got -1"));
  CHECK(input(int64_t{1} << 31).ends_with("indices must be in 0..2^31 - 1, got 2147483648"));
}

TEST_CASE("embedding: steps of training give the table gradients, in each arithmetic") {
  Model model = text_net();
  Graph graph = model.graph();
  const NodeId y = model.outputs()[0];
  const NodeId loss = graph.add(Mean{}, {graph.add(Mul{}, {y, y})}, "loss");
  const auto step = [&](const Arithmetic& arithmetic) {
    Tape tape(graph, model.parameters(),
              {.outputs = {y}, .roots = {loss}, .threads = 1, .arithmetic = arithmetic});
    std::ranges::copy(std::array{3, 0, 19, 3, 7}, tape.input<int32_t>("words").begin());
    tape.forward(mode::qat);
    tape.backward();
    std::vector<float> found = test::copied(tape.value<float>(y));
    const auto gradients = model.parameters().at("e.weight").gradients<float>();
    found.insert(found.end(), gradients.begin(), gradients.end());
    return found;
  };
  const std::vector<float> wanted = step({});
  REQUIRE(std::ranges::any_of(wanted, [](float v) { return v != 0; }));
  for (const Arithmetic& each : {products_of_codes(), exact(Requantization::FloatMultiply)}) {
    const std::vector<float> got = step(each);
    REQUIRE(got.size() == wanted.size());
    for (size_t i = 0; i < got.size(); ++i) {
      CAPTURE(i);
      CHECK(std::fabs(got[i] - wanted[i]) <= 1e-5f * std::max(1.0f, std::fabs(wanted[i])));
    }
  }
}
