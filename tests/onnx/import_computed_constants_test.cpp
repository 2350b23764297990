// Constants that nodes compute from others, and patterns of several nodes.
#include <doctest/doctest.h>

#include <span>
#include <utility>
#include <variant>

#include "qtape/tests/onnx/onnx_model.h"

using namespace qtape;
using namespace qtape::test::onnx_models;

namespace {

/// Adds the constant `name` to x, which is 0; integers are cast.
OnnxModel& answered(OnnxModel& model, const std::string& name = "c", bool integers = false) {
  if (integers) model.node("Cast", {name}, {"f"}).with("to", int64_t{onnx::TensorProto::FLOAT});
  return model.node("Add", {"x", integers ? "f" : name});
}

/// A node of constants, which give `values`.
struct Computed {
  std::string type;
  OnnxInputs inputs;
  Numbers values;
  bool integers = false;
  std::vector<std::pair<const char*, std::variant<int64_t, float, Extents>>> attributes = {};
};

OnnxModel model_of(const Computed& row) {
  const bool one = row.values.size() == 1;
  OnnxModel model(one ? Extents{-1, 1} : Extents{-1, std::ssize(row.values)});
  model.node(row.type, row.inputs, {"c"});
  for (const auto& [name, value] : row.attributes) {
    std::visit([&, to = name](const auto& each) { model.with(to, each); }, value);
  }
  return answered(model, "c", row.integers);
}

void check_values(std::span<const Computed> rows) {
  for (const Computed& row : rows) {
    CAPTURE(row.type);
    CAPTURE(row.values[0]);
    const std::vector<double> wanted(row.values.begin(), row.values.end());
    check_close(answer(model_of(row), Numbers(row.values.size()), 1), wanted, 2e-7);
  }
}

onnx::TensorProto row_of(const Numbers& values) { return floats({std::ssize(values)}, values); }

const onnx::TensorProto matrix = floats({2, 3}, {1, -2, 3, 4, 5, -6});
const onnx::TensorProto counts = codes({2, 2}, {2, -3, 4, 5}, onnx::TensorProto::INT64);

}  // namespace

TEST_CASE("onnx constants: arithmetic and functions") {
  const Computed rows[] = {
      {"Pow", {row_of({4, 9}), row_of({0.5f})}, {2, 3}},
      {"Pow", {row_of({4, 16}), row_of({-0.5f})}, {0.5f, 0.25f}},
      {"Pow", {row_of({2, -3}), ints({3})}, {8, -27}},
      {"Pow", {row_of({2, 4}), row_of({-2})}, {0.25f, 0.0625f}},
      {"Mod", {row_of({5.5f, -5.5f}), row_of({2})}, {1.5f, -1.5f}, false, {{"fmod", 1}}},
      {"Mod", {ints({7, -7}), ints({3})}, {1, 2}, true},
      {"Max", {row_of({1, 5}), row_of({3, 2}), row_of({2, 9})}, {3, 9}},
      {"Min", {ints({1, 5}), ints({3, 2}), ints({2, 9})}, {1, 2}, true},
      {"Max", {row_of({1, 5})}, {1, 5}},
      {"Neg", {ints({3, -4})}, {-3, 4}, true},
      {"Abs", {ints({3, -4})}, {3, 4}, true},
      {"Abs", {row_of({-0.5f, 2})}, {0.5f, 2}},
      {"Floor", {row_of({-0.5f, 2.5f})}, {-1, 2}},
      {"Ceil", {row_of({-0.5f, 2.5f})}, {0, 3}},
      {"Sqrt", {row_of({4, 0.25f})}, {2, 0.5f}},
      {"Exp", {row_of({0, 1})}, {1, 2.71828182846f}},
      {"Log", {row_of({1, 2.71828182846f})}, {0, 1}},
      {"Atan", {row_of({0, 1})}, {0, 0.785398163397f}},
      {"Clip", {row_of({-3, 0.5f, 8}), number(-1), number(6)}, {-1, 0.5f, 6}},
      {"Not", {codes({2}, {0, 1}, onnx::TensorProto::BOOL)}, {1, 0}, true}};
  check_values(rows);
}

TEST_CASE("onnx constants: comparisons select") {
  const auto selected = [](const char* type) {
    OnnxModel model({-1, 3});
    model.node(type, {row_of({1, 2, 3}), row_of({2})}, {"c"})
        .node("Where", {"c", row_of({10, 20, 30}), row_of({-1})}, {"w"});
    return answer(answered(model, "w"), Numbers(3), 1);
  };
  CHECK(selected("Equal") == Numbers{-1, 20, -1});
  CHECK(selected("Less") == Numbers{10, -1, -1});
  CHECK(selected("Greater") == Numbers{-1, -1, 30});
  CHECK(selected("LessOrEqual") == Numbers{10, 20, -1});
  CHECK(selected("GreaterOrEqual") == Numbers{-1, 20, 30});
}

TEST_CASE("onnx constants: reductions") {
  const Computed rows[] = {
      {"ReduceSum", {matrix, ints({1})}, {2, 3}, false, {{"keepdims", 0}}},
      {"ReduceSum", {matrix}, {5}, false, {{"keepdims", 0}}},
      {"ReduceMean", {matrix}, {2.0f / 3, 1}, false, {{"keepdims", 0}, {"axes", Extents{1}}}},
      {"ReduceMax", {matrix}, {4, 5, 3}, false, {{"keepdims", 0}, {"axes", Extents{0}}}},
      {"ReduceMin", {matrix}, {1, -2, -6}, false, {{"keepdims", 0}, {"axes", Extents{0}}}},
      {"ReduceProd", {matrix}, {-6, -120}, false, {{"keepdims", 0}, {"axes", Extents{-1}}}},
      {"ReduceSumSquare", {matrix}, {14, 77}, false, {{"keepdims", 0}, {"axes", Extents{1}}}},
      {"ReduceL2", {floats({1, 2}, {3, 4})}, {5}, false, {{"keepdims", 0}}},
      {"ReduceSum", {counts, ints({0})}, {6, 2}, true, {{"keepdims", 0}}},
      {"ReduceMax", {counts}, {4, 5}, true, {{"keepdims", 0}, {"axes", Extents{0}}}},
      {"ReduceMin", {counts}, {-3, 4}, true, {{"keepdims", 0}, {"axes", Extents{1}}}},
      {"ReduceProd", {counts}, {-6, 20}, true, {{"keepdims", 0}, {"axes", Extents{1}}}}};
  check_values(rows);
  refused(model_of({"ReduceMean", {counts}, {1, 2}, true}),
          "node 'the ReduceMean' (ReduceMean): ReduceMean of integers is not supported");
}

TEST_CASE("onnx constants: ranges and numbers of elements") {
  const auto range = [](int64_t start, int64_t limit, int64_t delta, const Numbers& values) {
    const auto one = [](int64_t value) { return codes({}, {value}, onnx::TensorProto::INT64); };
    return model_of({"Range", {one(start), one(limit), one(delta)}, values, true});
  };
  CHECK(answer(range(2, 9, 3, {2, 5, 8}), Numbers(3), 1) == Numbers{2, 5, 8});
  CHECK(answer(range(3, 0, -2, {3, 1}), Numbers(2), 1) == Numbers{3, 1});
  refused(range(0, 4, 0, {0}), "node 'the Range' (Range): a delta of 0 is not supported");
  const int64_t too_large = Shape::max_elements + 1;
  refused(range(0, too_large, 1, {0}),
          fmt::format("node 'the Range' (Range): {} exceeds the largest tensor", too_large));
  CHECK(answer(model_of({"Size", {matrix}, {6}, true}), Numbers{0}, 1) == Numbers{6});
}

TEST_CASE("onnx constants: parts and shapes") {
  OnnxModel split({-1, 2});
  split.node("Split", {matrix, ints({2, 1})}, {"a", "b"}).with("axis", 1);
  split.node("Squeeze", {"b", ints({1})}, {"c"});
  CHECK(answer(answered(split), Numbers(2), 1) == Numbers{3, -6});
  OnnxModel shaped({-1, 3, 2});
  shaped.node("Reshape", {floats({1, 2, 3}, {1, 2, 3, 4, 5, 6}), ints({0, 3, -1})}, {"c"});
  CHECK(answer(answered(shaped), Numbers(6), 1) == Numbers{1, 2, 3, 4, 5, 6});
}

TEST_CASE("onnx constants: what cannot be computed is refused") {
  const auto error = [](const std::string& type, const OnnxInputs& inputs) {
    return error_of(model_of({type, inputs, {0, 0}}));
  };
  CHECK(error("Pow", {row_of({2, 3}), row_of({0.3f})}).find("(Pow): the power 0.3") !=
        std::string::npos);
  CHECK(error("Pow", {ints({2, 3}), ints({2})})
            .ends_with("(Pow): Pow of integers is not supported"));
  CHECK(error("Add", {row_of({2, 3}), ints({2})})
            .ends_with("(Add): floats and integers cannot be combined"));
  CHECK(error("Less", {row_of({2, std::nanf("")}), row_of({2})})
            .ends_with("(Less): Less of NaN is not supported"));
}

TEST_CASE("onnx patterns: gates of activations become one op") {
  OnnxModel tanh_gelu({-1, 3});
  const std::string square = tanh_gelu.apply("Mul", {"x", "x"});
  const std::string cube = tanh_gelu.apply("Mul", {square, "x"});
  const std::string scaled = tanh_gelu.apply("Mul", {cube, number(0.044715f)});
  const std::string sum = tanh_gelu.apply("Add", {"x", scaled});
  const std::string inner = tanh_gelu.apply("Mul", {sum, number(0.7978845608f)});
  const std::string gate =
      tanh_gelu.apply("Add", {tanh_gelu.apply("Tanh", {inner}), number(1)});
  const std::string half = tanh_gelu.apply("Mul", {"x", number(0.5f)});
  tanh_gelu.node("Mul", {half, gate});
  CHECK(number_of<Gelu>(tanh_gelu) == 1);
  CHECK(number_of<Tanh>(tanh_gelu) == 0);
  check_close(answer(tanh_gelu, Numbers{-1, 0, 2}, 1), {-0.15880801, 0, 1.9545977}, 1e-6);

  OnnxModel hard({-1, 3});
  hard.node("HardSigmoid", {"x"}, {"g"}).with("alpha", 1.0f / 6).with("beta", 0.5f);
  hard.node("Mul", {"x", "g"});
  CHECK(number_of<HardSwish>(hard) == 1);
  check_close(answer(hard, Numbers{-1, 0, 3}, 1), {-1.0 / 3, 0, 3});
}

TEST_CASE("onnx patterns: local response norms over channels") {
  // Pads in PyTorch's order become those of ONNX.
  const auto pads_of = [](OnnxModel& made) {
    const std::string all =
        made.apply("Concat", {ints({0, 0, 0, 0, 1, 1}), ints({0, 0, 0, 0})});
    made.with("axis", 0);
    const std::string pairs = made.apply("Reshape", {all, ints({-1, 2})});
    const std::string reversed =
        made.apply("Slice", {pairs, ints({-1}), ints({-99}), ints({0}), ints({-1})});
    const std::string turned = made.apply("Transpose", {reversed});
    made.with("perm", Extents{1, 0});
    return made.apply("Reshape", {turned, ints({-1})});
  };
  const auto model = [&](bool computed) {
    OnnxModel made({-1, 3, 1, 2});
    made.node("Mul", {"x", "x"}, {"square"}).node("Unsqueeze", {"square", ints({1})}, {"five"});
    const OnnxInput pads =
        computed ? OnnxInput(pads_of(made)) : OnnxInput(ints({0, 0, 1, 0, 0, 0, 0, 1, 0, 0}));
    made.node("Pad", {"five", pads}, {"padded"});
    made.node("AveragePool", {"padded"}, {"pooled"})
        .with("kernel_shape", Extents{3, 1, 1})
        .with("strides", Extents{1, 1, 1})
        .with("count_include_pad", 1);
    made.node("Squeeze", {"pooled", ints({1})}, {"mean"})
        .node("Mul", {"mean", number(3)}, {"scaled"})
        .node("Add", {"scaled", number(1)}, {"base"})
        .node("Pow", {"base", number(0.5f)}, {"root"});
    return made.node("Div", {"x", "root"});
  };
  const Numbers x = {1, 2, 3, 4, 5, 6};  // [1, 2, 3 channels]
  std::vector<double> wanted;
  for (size_t i = 0; i < 6; ++i) {
    const size_t c = i % 3;
    double squares = 0;
    for (size_t k = c == 0 ? 0 : c - 1; k <= std::min<size_t>(c + 1, 2); ++k) {
      squares += double{x[i - c + k]} * double{x[i - c + k]};
    }
    wanted.push_back(double{x[i]} / std::sqrt(1 + squares));
  }
  check_close(answer(model(true), x, 1), wanted);
  check_close(answer(model(false), x, 1), wanted);
}

TEST_CASE("onnx: constants of each type of elements") {
  using Proto = onnx::TensorProto;
  const auto read = [](const Proto& tensor, bool integers) {
    OnnxModel model({-1, 2});
    model.constant("c", tensor);
    return answer(answered(model, "c", integers), Numbers(2), 1);
  };
  const auto integers = [&](int32_t type, const Extents& values) {
    return read(codes({2}, values, type), true);
  };
  CHECK(integers(Proto::INT64, {-5, 70000}) == Numbers{-5, 70000});
  CHECK(integers(Proto::INT32, {-5, 70000}) == Numbers{-5, 70000});
  CHECK(integers(Proto::INT16, {-5, 300}) == Numbers{-5, 300});
  CHECK(integers(Proto::UINT16, {5, 60000}) == Numbers{5, 60000});
  CHECK(integers(Proto::INT8, {-5, 100}) == Numbers{-5, 100});
  CHECK(integers(Proto::UINT8, {5, 200}) == Numbers{5, 200});
  CHECK(integers(Proto::BOOL, {0, 1}) == Numbers{0, 1});
  CHECK(integers(onnx_int4, {-8, 7}) == Numbers{-8, 7});
  CHECK(integers(onnx_uint4, {1, 15}) == Numbers{1, 15});
  CHECK(read(codes({2}, {0x3c00, 0xc000}, Proto::FLOAT16), false) == Numbers{1, -2});
  Proto wide = codes({2}, {}, Proto::UINT32);
  for (const uint64_t each : {7U, 70000U}) wide.add_uint64_data(each);
  CHECK(read(wide, true) == Numbers{7, 70000});
  Proto exact = codes({2}, {}, Proto::DOUBLE);
  for (const double each : {0.5, -3.0}) exact.add_double_data(each);
  CHECK(read(exact, false) == Numbers{0.5f, -3});
}

TEST_CASE("onnx: a constant condition selects a branch") {
  const auto model = [](bool condition) {
    OnnxModel made({-1, 2});
    made.constant("condition", codes({}, {condition ? 1 : 0}, onnx::TensorProto::BOOL));
    made.node("If", {"condition"});
    onnx::NodeProto& node = made.last();
    for (const auto& [name, type] :
         {std::pair{"then_branch", "Relu"}, std::pair{"else_branch", "Neg"}}) {
      auto& attribute = *node.add_attribute();
      attribute.set_name(name);
      attribute.set_type(onnx::AttributeProto::GRAPH);
      onnx::NodeProto& inner = *attribute.mutable_g()->add_node();
      inner.set_op_type(type);
      inner.add_input("x");
      inner.add_output("a");
      attribute.mutable_g()->add_output()->set_name("a");
    }
    return made;
  };
  CHECK(answer(model(true), Numbers{-1, 2}, 1) == Numbers{0, 2});
  CHECK(answer(model(false), Numbers{-1, 2}, 1) == Numbers{1, -2});
}
