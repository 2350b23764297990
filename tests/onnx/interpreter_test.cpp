// The interpreter of ONNX models: operators compared with results computed by hand, and
// exported programs compared with the reference.
#include "qtape/onnx/interpreter/interpreter.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "qtape/deploy/verify.h"
#include "qtape/integer/program/channels_first.h"
#include "qtape/integer/program/session.h"
#include "qtape/onnx/export.h"
#include "qtape/onnx/interpreter/interpreter_ops.h"
#include "qtape/onnx/levels.h"
#include "qtape/ops/quantizer_ops.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/integer_programs.h"

namespace {

using namespace qtape;

using Floats = std::vector<float>;
using Bytes = std::vector<uint8_t>;
using Codes = std::vector<int8_t>;
using Sums = std::vector<int32_t>;
using Numbers = std::vector<int64_t>;

/// Returns the result of an operator for `operands`; its attributes are lists of integers, or
/// single integers.
OnnxArray computed(const std::string& op, const std::vector<OnnxArray>& operands,
                   const std::map<std::string, Numbers>& lists = {},
                   const std::map<std::string, int64_t>& numbers = {}) {
  onnx::NodeProto proto;
  proto.set_op_type(op);
  proto.add_output("y");
  OnnxOperands given;
  for (const OnnxArray& each : operands) {
    proto.add_input("x");
    given.push_back(&each);
  }
  for (const auto& [name, values] : lists) {
    onnx::AttributeProto& attribute = *proto.add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::INTS);
    for (int64_t each : values) attribute.add_ints(each);
  }
  for (const auto& [name, value] : numbers) {
    onnx::AttributeProto& attribute = *proto.add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(value);
  }
  return compute_onnx(OnnxNode(proto), given);
}

template <class T>
const std::vector<T>& of(const OnnxArray& array) {
  return std::get<std::vector<T>>(array.data);
}

OnnxArray scalar(float v) { return {{}, Floats{v}}; }

TEST_CASE("onnx interpreter: Div of integers, towards 0") {
  const OnnxArray narrow{{4}, Sums{7, -7, 7, -8}};
  const OnnxArray by{{4}, Sums{2, 2, -2, 3}};
  CHECK(of<int32_t>(computed("Div", {narrow, by})) == Sums{3, -3, -3, -2});
  const OnnxArray wide{{2}, Numbers{int64_t{1} << 40, -9}};
  CHECK(of<int64_t>(computed("Div", {wide, {{}, Numbers{4}}})) ==
        Numbers{int64_t{1} << 38, -2});
  CHECK_THROWS_AS(computed("Div", {narrow, {{}, Sums{0}}}), FormatError);
}

TEST_CASE("onnx interpreter: ArgMax, the first of equal elements along any axis") {
  const OnnxArray x{{2, 3}, Floats{1, 4, 4, 9, 4, 9}};
  const OnnxArray last = computed("ArgMax", {x}, {}, {{"axis", -1}, {"keepdims", 0}});
  CHECK(last.shape == Numbers{2});
  CHECK(of<int64_t>(last) == Numbers{1, 0});
  const OnnxArray first = computed("ArgMax", {x});
  CHECK(first.shape == Numbers{1, 3});
  CHECK(of<int64_t>(first) == Numbers{1, 0, 1});
  const OnnxArray codes{{1, 2, 2}, Codes{-3, 5, -2, 5}};
  CHECK(of<int64_t>(computed("ArgMax", {codes}, {}, {{"axis", 1}})) == Numbers{1, 0});
}

TEST_CASE("onnx interpreter: QuantizeLinear and DequantizeLinear, ties and ends") {
  const float inf = std::numeric_limits<float>::infinity();
  const OnnxArray x{{8}, Floats{0.25f, 0.75f, -0.25f, -0.75f, 100, -100, inf, -inf}};
  CHECK(of<uint8_t>(computed("QuantizeLinear", {x, scalar(0.5f), {{}, Bytes{7}}})) ==
        Bytes{7, 9, 7, 5, 207, 0, 255, 0});
  CHECK(of<int8_t>(computed("QuantizeLinear", {x, scalar(0.5f), {{}, Codes{-3}}})) ==
        Codes{-3, -1, -3, -5, 127, -128, 127, -128});
  const OnnxArray codes{{2, 2}, Codes{-128, 127, 1, 2}};
  CHECK(of<float>(computed("DequantizeLinear",
                           {codes, {{2}, Floats{0.5f, 3}}, {{2}, Codes{-1, 2}}}, {},
                           {{"axis", 0}})) == Floats{-63.5f, 64, -3, 0});
  CHECK(of<float>(computed("DequantizeLinear", {codes, scalar(2), {{}, Codes{0}}})) ==
        Floats{-256, 254, 2, 4});
}

TEST_CASE("onnx interpreter: products of codes, with padding, stride, dilation and groups") {
  const OnnxArray a{{1, 3}, Bytes{5, 0, 255}};
  const OnnxArray b{{3, 2}, Bytes{1, 128, 2, 0, 3, 255}};
  const OnnxArray y = computed("MatMulInteger", {a, b, {{}, Bytes{5}}, {{}, Bytes{128}}});
  // (0, -5, 250) times (-127, 0; -126, -128; -125, 127).
  CHECK(of<int32_t>(y) == Sums{630 - 31250, 640 + 31750});
  CHECK(y.shape == Numbers{1, 2});
  // Two channels in two groups, kernels of 2 with dilation 2, stride 2, one column of padding.
  const OnnxArray x{{1, 2, 4}, Bytes{11, 12, 13, 14, 21, 22, 23, 24}};
  const OnnxArray w{{2, 1, 2}, Codes{1, 2, -1, 3}};
  const OnnxArray z =
      computed("ConvInteger", {x, w, {{}, Bytes{10}}, {{}, Codes{0}}},
               {{"strides", {2}}, {"dilations", {2}}, {"pads", {1, 1}}}, {{"group", 2}});
  CHECK(z.shape == Numbers{1, 2, 2});
  CHECK(of<int32_t>(z) == Sums{2 * 2, 2 + 2 * 4, 3 * 12, -12 + 3 * 14});
  const OnnxArray image{{1, 1, 2, 2}, Floats{1, 2, 3, 4}};
  const OnnxArray filter{{1, 1, 2, 2}, Floats{1, 10, 100, 1000}};
  const OnnxArray f =
      computed("Conv", {image, filter, {{1}, Floats{0.5f}}}, {{"pads", {1, 1, 0, 0}}});
  CHECK(of<float>(f) == Floats{1000.5f, 2100.5f, 3010.5f, 4321.5f});
}

TEST_CASE("onnx interpreter: views, joins and reductions") {
  const OnnxArray x{{2, 3}, Sums{1, 2, 3, 4, 5, 6}};
  const OnnxArray t = computed("Transpose", {x}, {{"perm", {1, 0}}});
  CHECK(t.shape == Numbers{3, 2});
  CHECK(of<int32_t>(t) == Sums{1, 4, 2, 5, 3, 6});
  CHECK(of<int32_t>(computed("Concat", {x, x}, {}, {{"axis", 1}})) ==
        Sums{1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6});
  CHECK(of<int32_t>(
            computed("Slice", {x, {{1}, Numbers{-2}}, {{1}, Numbers{9}}, {{1}, Numbers{1}}})) ==
        Sums{2, 3, 5, 6});
  CHECK(of<int32_t>(computed("Gather", {x, {{2}, Numbers{2, 0}}}, {}, {{"axis", 1}})) ==
        Sums{3, 1, 6, 4});
  CHECK(of<int32_t>(computed("Pad", {x, {{4}, Numbers{0, 1, 0, -1}}, {{}, Sums{9}}})) ==
        Sums{9, 1, 2, 9, 4, 5});
  CHECK(of<int32_t>(computed("ReduceSum", {x, {{1}, Numbers{1}}})) == Sums{6, 15});
  CHECK(of<int32_t>(computed("ReduceMax", {x}, {{"axes", {0}}}, {{"keepdims", 0}})) ==
        Sums{4, 5, 6});
  CHECK(of<int32_t>(computed("Add", {x, {{3}, Sums{10, 20, 30}}})) ==
        Sums{11, 22, 33, 14, 25, 36});
  CHECK(of<int32_t>(computed("Mul", {x, {{2, 1}, Sums{1, -1}}})) == Sums{1, 2, 3, -4, -5, -6});
  CHECK(of<int32_t>(computed("Clip", {x, {{}, Sums{2}}, {{}, Sums{5}}})) ==
        Sums{2, 2, 3, 4, 5, 5});
  const OnnxArray image{{1, 1, 2, 2}, Floats{1, 2, 3, 4}};
  const std::map<std::string, Numbers> windows = {{"kernel_shape", {2, 2}},
                                                  {"pads", {1, 0, 0, 0}}};
  CHECK(of<float>(computed("MaxPool", {image}, windows)) == Floats{2, 4});
  CHECK(of<float>(computed("AveragePool", {image}, windows)) == Floats{1.5f, 2.5f});
  CHECK(of<float>(computed("AveragePool", {image}, windows, {{"count_include_pad", 1}})) ==
        Floats{0.75f, 2.5f});
}

TEST_CASE("onnx interpreter: Max and Min compare numbers with their signs") {
  const auto both = [](const auto& a, const auto& b) {
    const OnnxArray left{{2}, a}, right{{2}, b};
    return std::pair(computed("Max", {left, right}).data, computed("Min", {left, right}).data);
  };
  CHECK(both(Numbers{-1, 5}, Numbers{3, -7}) == both(Numbers{3, 5}, Numbers{-1, -7}));
  CHECK(both(Numbers{-1, 5}, Numbers{3, -7}).first == decltype(OnnxArray::data)(Numbers{3, 5}));
  CHECK(both(Sums{-1, 5}, Sums{3, -7}).second == decltype(OnnxArray::data)(Sums{-1, -7}));
  CHECK(both(Codes{-1, 5}, Codes{3, -7}).first == decltype(OnnxArray::data)(Codes{3, 5}));
}

TEST_CASE("onnx interpreter: what does not go together is refused with its reason") {
  const OnnxArray x{{2, 3}, Floats{1, 2, 3, 4, 5, 6}};
  const auto reason = [](auto... arguments) {
    return test::error_text<FormatError>([&] { (void)computed(arguments...); });
  };
  using Given = std::vector<OnnxArray>;
  CHECK(reason("Tanh", Given{x}) == "the operator is not supported");
  CHECK(reason("MatMul", Given{x, x}) == "the extents of the operands do not match");
  CHECK(reason("Add", Given{x, {{2}, Floats{1, 2}}}) == "extents 3 and 2 do not broadcast");
  CHECK(reason("Add", Given{x, {{2}, Bytes{1, 2}}}) == "input 1 has elements of another type");
  CHECK(reason("Add", Given{x}) == "input 1 is missing");
  CHECK(reason("Gather", Given{x, {{1}, Numbers{2}}}) == "index 2 is out of range");
  CHECK(test::error_text<FormatError>([] { OnnxInterpreter("no model"); }) ==
        "is not an ONNX model");
}

bool has_16_bits(const IntegerProgram& program) {
  return std::ranges::any_of(program.nodes(), [](const IntegerNode& node) {
    return size_of(node.value.type.dtype) == 2;
  });
}

int32_t type_of(const OnnxArray& array) {
  using Proto = onnx::TensorProto;
  // In the order of OnnxArray::data.
  constexpr int32_t types[] = {Proto::FLOAT,  Proto::INT8,  Proto::UINT8, Proto::INT16,
                               Proto::UINT16, Proto::INT32, Proto::INT64};
  return types[array.data.index()];
}

/// Returns the first value between nodes without value_info, or whose type or shape differs
/// from the result. The batch may have any extent.
std::string wrong_type(const std::string& bytes, const OnnxInterpreter& run) {
  onnx::ModelProto model;
  CHECK(model.ParseFromString(bytes));
  std::map<std::string, const onnx::TypeProto_Tensor*> told;
  for (const auto* values : {&model.graph().value_info(), &model.graph().output()}) {
    for (const auto& each : *values) told[each.name()] = &each.type().tensor_type();
  }
  for (const auto& node : model.graph().node()) {
    const auto found = told.find(node.output(0));
    const OnnxArray& came = run.value(node.output(0));
    bool same = found != told.end() && found->second->elem_type() == type_of(came) &&
                found->second->shape().dim_size() == std::ssize(came.shape);
    for (size_t k = 0; same && k < came.shape.size(); ++k) {
      const auto& extent = found->second->shape().dim(static_cast<int>(k));
      same = extent.has_dim_param() || extent.dim_value() == came.shape[k];
    }
    if (!same) return "type or shape of " + node.output(0);
  }
  return "";
}

/// Returns the first output of `program` whose ONNX model of this form differs from the
/// reference; empty if there is none. The opset depends on the seed.
std::string difference(const IntegerProgram& program, OnnxForm form, uint64_t seed) {
  const int64_t opset = has_16_bits(program) ? 21 : 13 + static_cast<int64_t>(seed % 9);
  const std::string bytes = to_onnx(program, {.form = form, .opset = opset});
  OnnxInterpreter model(bytes);
  IntegerSession reference(program, {.reference = true});
  for (const ProgramNodeId id : ids(program)) {
    const IntegerNode& node = program[id];
    if (!std::holds_alternative<integer::Input>(node.op)) continue;
    const auto input = reference.input(id);
    test::fill_wild(input, seed);
    const auto extents = node.value.type.shape.extents();
    model.set(node.label,
              {{extents.begin(), extents.end()}, Floats(input.begin(), input.end())});
  }
  reference.run();
  model.run();
  std::string different = wrong_type(bytes, model);
  const std::vector<std::string> names = model.outputs();
  for (size_t k = 0; different.empty() && k < names.size(); ++k) {
    const auto wanted = reference.bytes(program.outputs()[k]);
    std::visit(
        [&](const auto& values) {
          const auto came = std::as_bytes(std::span(values));
          if (std::ranges::equal(came, wanted)) return;
          const auto at = std::ranges::mismatch(came, wanted).in1 - came.begin();
          different = fmt::format("{} at byte {} of {}", names[k], at, wanted.size());
        },
        model.value(names[k]).data);
  }
  return different;
}

TEST_CASE("onnx interpreter: programs in integers give every value of the reference") {
  int64_t run = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    CAPTURE(seed);
    IntegerProgram program =
        test::Settled(test::any_net(seed), seed).program(Requantization::OnnxQdq);
    if (seed % 4 < 2) program = channels_first(program);
    std::vector<ProgramNodeId> all;
    for (const ProgramNodeId id : ids(program)) {
      if (!std::holds_alternative<integer::Input>(program[id].op)) {
        all.push_back(id);
      }
    }
    program.set_outputs(all);
    try {
      (void)to_onnx(program, {.form = OnnxForm::Integer});
    } catch (const GraphError&) {
      continue;  // export_test.cpp checks the reasons
    }
    CHECK(difference(program, OnnxForm::Integer, seed) == "");
    ++run;
  }
  CHECK(run >= 40);
}

/// Returns the graph with scales that are powers of two; nullopt if some are learned or fixed.
std::optional<Graph> with_powers_of_two(const Graph& graph) {
  Graph result;
  for (const NodeId id : ids(graph)) {
    const Node& node = graph[id];
    Op op = node.op;
    auto* quantizer = std::get_if<FakeQuantize>(&op);
    if (quantizer != nullptr && !std::holds_alternative<Fixed>(quantizer->scale_mode)) {
      quantizer->power_of_two = true;
    } else if (is_quantizer(op)) {
      return std::nullopt;
    }
    result.add(op, node.operands, node.label);
  }
  result.set_outputs({graph.outputs().begin(), graph.outputs().end()});
  return result;
}

/// True if all floats are sums of products, which are exact with powers of two.
bool is_of_products(const IntegerProgram& program) {
  for (const IntegerNode& node : program.nodes()) {
    if (std::holds_alternative<integer::AvgPool>(node.op) ||
        std::holds_alternative<integer::Sum>(node.op)) {
      return false;
    }
  }
  return test::all_exact_in_f32(program);
}

TEST_CASE("onnx interpreter: with scales that are powers of two products in float are exact") {
  int64_t run = 0, wide = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    const auto graph =
        with_powers_of_two(seed % 2 == 0 ? test::conv_net(seed) : test::random_net(seed));
    if (!graph) continue;
    const IntegerProgram program = test::Settled(*graph, seed).program(Requantization::OnnxQdq);
    if (!is_of_products(program)) continue;
    try {
      (void)to_onnx(program, {.opset = 21});
    } catch (const GraphError&) {
      continue;
    }
    CHECK(difference(program, OnnxForm::Qdq, seed) == "");
    ++run;
    wide += has_16_bits(program) ? 1 : 0;
  }
  CHECK(run >= 20);
  CHECK(wide >= 5);
}

TEST_CASE("onnx interpreter: codes of 16 bits come out of floats as they went in") {
  for (const CodeGrid& grid : {CodeGrid{DType::S16, 1e-4f, -5, -20001, 29999},
                               CodeGrid{DType::U16, 1.0f / 7, 65000, 0, 65535},
                               CodeGrid{DType::U16, 3e-5f, 12, 12, 65534}}) {
    test::ProgramBuilder b(Requantization::OnnxQdq);
    const ProgramNodeId q = b.codes({3, 7, 5, 4}, grid);
    const auto pooled = [&](const MaxPool& pool, const char* label) {
      return b.add(integer::Structure<MaxPool>{pool}, {q}, label);
    };
    const ProgramNodeId largest = pooled(
        {.padding = Padding::Explicit, .pads_begin = {1, 0}, .pads_end = {0, 1}}, "pool");
    const ProgramNodeId padded =
        b.add(integer::Pad{.begin = {0, 2, 0, 0}, .end = {0, 0, 1, 0}, .code = grid.high - 3},
              {q}, "pad");
    const ProgramNodeId most = b.add(integer::Max{.axes = {1, -1}}, {padded}, "max");
    const ProgramNodeId wide = pooled({.kernel = {3, 2},
                                       .stride = {1, 2},
                                       .dilation = {2, 3},
                                       .padding = Padding::Explicit,
                                       .pads_begin = {3, 1},
                                       .pads_end = {4, 2}},
                                      "wide");
    const IntegerProgram program = b.of({q, largest, padded, most, wide});
    for (uint64_t seed = 0; seed < 20; ++seed) {
      CHECK(difference(program, OnnxForm::Qdq, seed) == "");
    }
    CHECK(test::error_text<GraphError>([&] {
            (void)to_onnx(program, {.opset = 20});
          }).ends_with("codes of 16 bits need opset 21, got 20"));
    CHECK(
        test::error_text<GraphError>(
            [&] { (void)to_onnx(program, {.form = OnnxForm::Integer, .opset = 21}); })
            .ends_with(
                "ONNX's integer products take 8-bit codes, got 16 bits: use the form qdq with opset 21 or later"));
  }
}

TEST_CASE("onnx interpreter: codes are moved and interpolated in both layouts") {
  for (const CodeGrid& grid :
       {CodeGrid{DType::S8, 0.5f, -5, -100, 90}, CodeGrid{DType::U8, 0.25f, 12, 0, 255}}) {
    test::ProgramBuilder b(Requantization::OnnxQdq);
    const ProgramNodeId q = b.codes({2, 4, 3, 5}, grid);
    const ProgramNodeId pooled =
        b.add(integer::Structure<MaxPool>{{.kernel = {2, 1}}}, {q}, "pooled");
    std::vector<ProgramNodeId> all;
    for (const ProgramNodeId x : {q, pooled}) {
      for (int axis : {1, 2, -1}) {
        all.push_back(b.add(integer::Gather{{.axis = axis, .indices = {1, 0, 1}}}, {x}));
      }
      for (const std::vector<int>& axes :
           {std::vector{0, 3, 1, 2}, {0, 2, 3, 1}, {0, 2, 1, 3}}) {
        all.push_back(b.add(integer::Transpose{{.permutation = axes}}, {x}));
      }
      const integer::Interpolate larger{
          {.extents = {5, 4}, .step = {2, 3}, .offset = {-1, 1}, .divisor = {4, 5}}};
      all.push_back(b.add(integer::Requantize{test::whole_grid(DType::S8, 0.25, 3)},
                          {b.add(larger, {x})}));
    }
    const IntegerProgram program = b.of(all);
    CHECK(difference(program, OnnxForm::Integer, 7) == "");
  }
}

TEST_CASE("onnx levels: verification runs the interpreter beside the others") {
  test::Settled net(test::conv_net(4), 4);
  VerifyOptions options;
  options.convert.requantization = Requantization::OnnxQdq;
  options.batch = 5;
  options.levels = {onnx_level};
  CHECK(test::error_text<ArgumentError>([&] {
          Verifier(net.graph, net.parameters, options);
        }) == "L5 ONNX needs a runner of another library");
  options.runners = onnx_levels();
  Verifier verifier(net.graph, net.parameters, options);
  test::fill_wild(verifier.input(), 3);
  verifier.run(4);
  CHECK(test::mismatch(verifier) == "");
  for (const LayerComparison& layer : verifier.layers()) {
    CHECK(layer.differences.at(onnx_level) == 0);
  }
}

TEST_CASE("onnx export: from opset 21 on weights of 4 bits are packed, the first in low bits") {
  test::ProgramBuilder b(Requantization::OnnxQdq);
  const ProgramNodeId q = b.codes({2, 3}, test::whole_grid(DType::U8, 0.25, 7));
  const ProgramNodeId fc = b.linear(q, {{5, -3, 7}, {0.5f}, {3}, 4}, "fc");
  const IntegerProgram program = b.of({b.add(integer::Dequantize{}, {fc}, "y")});
  for (int64_t opset : {20, 21}) {
    const std::string bytes = to_onnx(program, {.opset = opset});
    onnx::ModelProto model;
    CHECK(model.ParseFromString(bytes));
    const auto& tensors = model.graph().initializer();
    const auto weights =
        std::ranges::find(tensors, "fc.weight", [](const auto& each) { return each.name(); });
    CHECK(weights->data_type() == (opset == 21 ? onnx_int4 : onnx::TensorProto::INT8));
    CHECK(weights->raw_data() == (opset == 21 ? "\xd5\x07" : "\x05\xfd\x07"));
    CHECK(read_constant(*weights).integers == Numbers{5, -3, 7});
  }
  CHECK(difference(program, OnnxForm::Qdq, 8) == "");  // opset 21
}

}  // namespace
