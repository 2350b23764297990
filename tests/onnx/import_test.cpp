// ONNX models as exported by PyTorch, and invalid ones of every kind.
#include "qtape/onnx/import.h"

#include <algorithm>
#include <cmath>

#include "qtape/core/random.h"
#include "qtape/io/arrays/npy.h"
#include "qtape/io/files.h"
#include "qtape/tests/onnx/onnx_model.h"

using namespace qtape;
using namespace qtape::test::onnx_models;

namespace {

using Texts = std::vector<std::string>;

std::string path_of(const std::string& name) {
  return fmt::format("{}/onnx/{}", QTAPE_TEST_DATA, name);
}

std::string error_of_file(const std::string& bytes) {
  return test::error_text<FormatError>([&] { (void)parse_onnx(bytes, "m.onnx"); });
}

/// Sums and products of this value overflow.
constexpr int64_t huge = int64_t{1} << 62;

}  // namespace

TEST_CASE("onnx: what PyTorch exports answers as PyTorch does") {
  for (const char* name : {"lenet", "lenet-fixed", "block", "one-axis", "mlp", "images",
                           "enlarge", "parts", "windows", "norm", "moves", "resized"}) {
    CAPTURE(std::string(name));
    const SavedModel model = import_onnx(path_of(std::string(name) + ".onnx"));
    const Tensor wanted = read_npy(path_of(std::string(name) + "-y.npy"));
    const Tensor x = read_npy(path_of(std::string(name) + "-x.npy"));
    const Numbers got = answer(model, test::copied(x.values<float>()), x.type.shape[0]);
    REQUIRE(static_cast<int64_t>(got.size()) == wanted.type.elements());
    const auto y = wanted.values<float>();
    for (size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - y[i]) <= 1e-5f);
  }
}

TEST_CASE("onnx: layers keep their names, and nothing is transposed on the way") {
  const SavedModel model = import_onnx(path_of("lenet.onnx"));
  for (const char* label : {"x", "conv1.weight", "conv1.bias", "conv1", "fc1", "fc2.weight"}) {
    CHECK(model.graph.find(label));
  }
  CHECK(model.graph[model.graph.at("x")].type.shape == Shape{1, 10, 8, 2});
  CHECK(number_of<Transpose>(model) == 0);
  const SavedModel fixed = import_onnx(path_of("lenet-fixed.onnx"));
  CHECK(fixed.graph.size() == model.graph.size());
}

TEST_CASE(
    "onnx: layers without a named weight are called as their modules, outputs as the file says") {
  const SavedModel model = OnnxModel({1, 2, 4, 4})
                               .floats("onnx::Conv_12", {3, 2, 1, 1}, Numbers(6, 1))
                               .floats("onnx::Conv_13", {3}, Numbers(3))
                               .node("Conv", {"x", "onnx::Conv_12", "onnx::Conv_13"}, {"a"})
                               .named("/layer1/layer1.0/conv1/Conv")
                               .node("Add", {"a", "a"})
                               .named("/layer1/layer1.0/Add_1")
                               .imported();
  for (const char* label :
       {"layer1.0.conv1.weight", "layer1.0.conv1.bias", "layer1.0.conv1", "layer1.0.add"}) {
    CAPTURE(std::string(label));
    CHECK(model.graph.find(label));
  }
  CHECK(model.graph[model.graph.outputs()[0]].label == "y");
}

TEST_CASE("onnx: a constant that several nodes read alike is one parameter") {
  const SavedModel model = OnnxModel({1, 2})
                               .floats("w", {2, 2}, {1, 2, 3, 4})
                               .node("MatMul", {"x", "w"}, {"h"})
                               .node("Gemm", {"h", "w"})
                               .imported();
  CHECK(model.parameters.entries().size() == 1);
  CHECK(model.parameters.get("w") == Tensor::of<float>({2, 2}, Numbers{1, 3, 2, 4}));
}

TEST_CASE("onnx: Max and Min take any number of tensors, limited by numbers among them") {
  const auto result = [](const char* type, bool limited) {
    OnnxModel model({1, 4});
    model.node("Neg", {"x"}, {"n"});
    limited ? model.node(type, {floats({1}, {0.5f}), "x", number(1)})
            : model.node(type, {"x", "n", "x"});
    return answer(model, Numbers{-2, 0.25f, 0.75f, 3}, 1);
  };
  CHECK(result("Max", false) == Numbers{2, 0.25f, 0.75f, 3});
  CHECK(result("Min", false) == Numbers{-2, -0.25f, -0.75f, -3});
  CHECK(result("Max", true) == Numbers{1, 1, 1, 3});
  CHECK(result("Min", true) == Numbers{-2, 0.25f, 0.5f, 0.5f});
}

TEST_CASE("onnx: what is not read is refused by its node") {
  const OnnxModel row({1, 4}), image({1, 2, 4, 4});
  const auto of = [](OnnxModel model, const char* type, const OnnxInputs& inputs) {
    return model.node(type, inputs);
  };
  refused(
      of(row, "Hardmax", {"x"}),
      "node 'the Hardmax' (Hardmax): the operator is not supported: leave it out of the export; compute it afterwards");
  refused(
      of(row, "Foo", {"x"}),
      "node 'the Foo' (Foo): the operator is not supported: replace it with operators listed in docs/limits.md");
  refused(of(row, "Relu", {"x"}).named("").of_domain("com.microsoft"),
          "the node of 'y' (Relu): operators of the domain 'com.microsoft' are not supported");
  refused(of(row, "Add", {"x", "z"}),
          "node 'the Add' (Add): input 1, 'z', is not computed by any preceding node");
  refused(
      of(row, "Transpose", {"x"}).with("perm", Extents{1, 1}),
      "node 'the Transpose' (Transpose): perm [1, 1] is not a permutation of the axes of [1, 4]");
  refused(of(row, "Gemm", {"x", floats({3, 2}, Numbers(6))}),
          "node 'the Gemm' (Gemm): the weight expects 3 features, the input has [1, 4]");
  CHECK(error_of(of(image, "Conv", {"x", floats({3, 5, 1, 1}, Numbers(15))}))
            .starts_with("m.onnx: node 'the Conv' (Conv): Conv2d"));
  refused(of(image, "MaxPool", {"x"}).with("kernel_shape", Extents{2}),
          "node 'the MaxPool' (MaxPool): attribute kernel_shape has 1 numbers, expected 2");
  refused(of(row, "Softmax", {"x"}).with("axis", Extents{1}),
          "node 'the Softmax' (Softmax): attribute axis has the wrong type");
  // Attributes and outputs that change a result are not passed over.
  refused(of(row, "Relu", {"x"}).with("threshold", Extents{1}),
          "node 'the Relu' (Relu): attribute threshold is not supported");
  refused(
      OnnxModel(image).node("MaxPool", {"x"}, {"p", "y"}).with("kernel_shape", Extents{2, 2}),
      "node 'the MaxPool' (MaxPool): output 1, 'y', is not supported");
}

TEST_CASE("onnx: all that is not read is one list, and what follows it is checked as well") {
  OnnxModel model({1, 2, 8, 8});
  model.floats("w", {3, 2, 3, 3}, Numbers(54))
      .node("Conv", {"x", "w"}, {"a"})
      .node("Relu", {"a"}, {"b"})
      .node("Hardmax", {"x"}, {"c"})
      .named("act1")
      .node("AveragePool", {"c"}, {"d"})
      .with("kernel_shape", Extents{2, 2})
      .with("dilations", Extents{2, 2})
      .with("auto_pad", "MIDDLE")
      .node("Hardmax", {"d"}, {"e"})
      .named("act2")
      // Its input has the shape that Hardmax keeps.
      .node("Conv", {"c", floats({3, 2, 3, 3}, Numbers(54))}, {"f"})
      .with("kernel_shape", Extents{5, 5})
      .node("Concat", {"b", "e", "f"});
  model.graph().mutable_initializer(0)->set_data_location(onnx::TensorProto::EXTERNAL);
  refused(
      model,
      "5 problems: tensor 'w': its data are in another file, and only its bytes were given; nodes 'act1', 'act2' (Hardmax): the operator is not supported: leave it out of the export; compute it afterwards; node 'the AveragePool' (AveragePool): auto_pad MIDDLE is not supported, dilations other than 1 are not supported; node 'the Conv' (Conv): kernel_shape is not that of the filters");
}

TEST_CASE("onnx: what no output needs is not read, and that is noted") {
  OnnxModel unread({1, 4});
  unread.codes("words", {}, {}, onnx::TensorProto::STRING)
      .node("NonZero", {"x"}, {"places"})
      .node("TopK", {"places"}, {"z"})
      .node("Dropout", {"x"}, {"y", "unused"});
  auto& mask = *unread.graph().add_input();
  mask.set_name("mask");
  mask.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::INT64);
  Texts notes;
  const SavedModel model = unread.imported(&notes);
  CHECK(model.parameters.entries().empty());
  CHECK(number_of<Input>(model) == 1);
  CHECK(notes == Texts{"input 'mask' is left out: no output needs it",
                       "2 nodes are left out: no output needs them"});
}

TEST_CASE("onnx: an input of integers that nodes only cast to floats is f32") {
  OnnxModel model({1, 4}, 17, onnx::TensorProto::UINT8);
  model.node("Cast", {"x"}).with("to", 1);
  Texts notes;
  CHECK(model.imported(&notes).graph[NodeId{0}].type.dtype == DType::F32);
  CHECK(notes ==
        Texts{"input 'x' is read as f32: all nodes cast its integers to floats; give it arrays "
              "of f32, as those of u8 are divided by 255"});
  refused(model.then("Add", {"x"}), "input 'x': expected FLOAT, INT32 or INT64, got UINT8");
}

TEST_CASE("onnx: filters over one axis make inputs channels last, wherever they are kept") {
  const onnx::TensorProto filters = floats({2, 3, 3}, Numbers(18, 1));
  for (const OnnxModel& each :
       {OnnxModel({1, 3, 8}).node("Conv", {"x", filters}), OnnxModel({1, 3, 8})
                                                               .node("Constant", {}, {"w"})
                                                               .with("value", filters)
                                                               .node("Conv", {"x", "w"})}) {
    const SavedModel model = each.imported();
    CHECK(model.graph[model.graph.at("x")].type.shape == Shape{1, 8, 3});
    CHECK(answer_shape(model) == Shape{1, 6, 2});
  }
}

TEST_CASE("onnx: axes of one element move without a transpose") {
  const OnnxModel model =
      OnnxModel({1, 1, 4, 5}).node("Squeeze", {"x"}).with("axes", Extents{1});
  CHECK(number_of<Transpose>(model) == 0);
  CHECK(answer_shape(model) == Shape{1, 4, 5});
}

TEST_CASE("onnx: Reshape with allowzero takes extents as they are") {
  const auto reshaped = [](const Extents& shape) {
    return OnnxModel({1, 6})
        .node("Constant", {}, {"s"})
        .with("value_ints", shape)
        .node("Reshape", {"x", "s"})
        .with("allowzero", 1);
  };
  CHECK(answer_shape(reshaped({-1, 2, 3})) == Shape{1, 2, 3});
  refused(
      reshaped({0, 2, 3}),
      "node 'the Reshape' (Reshape): with allowzero [0, 2, 3] has no elements, and empty tensors are not supported");
}

TEST_CASE("onnx: inputs have the same number of samples") {
  const auto sum = [](const Extents& x, const Extents& b) {
    return OnnxModel(x).graph_input("b", b).node("Add", {"x", "b"});
  };
  const std::string other = ": all inputs need the same number of samples";
  refused(sum({1, 4}, {4}), "input 'b': its batch is 4, that of input 'x' is 1" + other);
  refused(sum({8, 4}, {1, 4}), "input 'b': its batch is 1, that of input 'x' is 8" + other);
  std::vector<std::string> notes;
  (void)sum({-1, 4}, {1, 4}).imported(&notes);
  CHECK(notes ==
        std::vector<std::string>{
            "input 'b': its batch is 1, that of input 'x' is dynamic; it is read as an "
            "input with a value for each sample"});
}

TEST_CASE("onnx: the batch extent among numbers is called so") {
  const OnnxModel shape = OnnxModel({1, 4}).node("Shape", {"x"}, {"shape"});
  refused(OnnxModel(shape)
              .node("Reshape", {floats({2, 2}, {1, 2, 3, 4}), "shape"}, {"z"})
              .node("Add", {"x", "z"}),
          "node 'the Reshape' (Reshape): extent batch is not a valid number of elements");
  refused(OnnxModel(shape).node("Mul", {"shape", "shape"}, {"z"}).node("Reshape", {"x", "z"}),
          "node 'the Mul' (Mul): Mul of batch and batch depends on the number of samples");
  refused(
      OnnxModel(shape).node("Concat", {"shape", "shape"}, {"z"}).node("Reshape", {"x", "z"}),
      "node 'the Reshape' (Reshape): axis 2 takes the batch extent" + hidden_by_batch_of_1);
}

TEST_CASE("onnx: numbers beyond any tensor are refused before they are added up") {
  const auto of = [](const Extents& numbers, const char* type) {
    return OnnxModel({1, 4})
        .node("Constant", {}, {"c"})
        .with("value_ints", numbers)
        .node(type, {"x", "c"});
  };
  refused(of({0, huge, 0, huge}, "Pad"),
          "node 'the Pad' (Pad): 4611686018427387904 exceeds the largest tensor");
  refused(
      of({-1, huge, huge}, "Reshape"),
      "node 'the Reshape' (Reshape): extents 1 and 4611686018427387904 exceed the largest tensor");
}

TEST_CASE("onnx: files that are no models, of other opsets or with other data") {
  CHECK(error_of_file("") == "m.onnx: is not an ONNX model");
  CHECK(error_of_file("not a model") == "m.onnx: is not an ONNX model");
  const auto product = [](const onnx::TensorProto& w) {
    return OnnxModel({1, 4}).constant("w", w).node("MatMul", {"x", "w"});
  };
  refused(OnnxModel({1, 4}, 8).node("Relu", {"x"}), "expected opset 9 to 23, got 8");
  refused(product(floats({4, 1}, {1, 2, 3, 4})).floats("w", {4, 1}, {4, 3, 2, 1}),
          "two initializers are named 'w'");
  refused(OnnxModel({1, 4}).node("Relu", {"x"}).node("Tanh", {"x"}),
          "'y' is the output of two nodes, or of a node and also an input or an initializer");
  refused(product(floats({4, 100000000}, {1, 2})),
          "tensor 'w' has 400000000 elements, its data 2");
  onnx::TensorProto external = floats({4, 1}, {});
  external.set_data_location(onnx::TensorProto::EXTERNAL);
  refused(product(external),
          "tensor 'w': its data are in another file, and only its bytes were given");
  refused(OnnxModel({1, 4}).floats("w", {-4}, {}).node("Add", {"x", "w"}),
          "tensor 'w' has the extent -4");
  OnnxModel wide({1, 4});
  wide.node("Relu", {"x"});
  auto& type = *wide.graph().mutable_input(0)->mutable_type()->mutable_tensor_type();
  type.mutable_shape()->mutable_dim(1)->set_dim_param("width");
  refused(wide, "input 'x': extent 1 must be a number, got 'width'");
  refused(OnnxModel({1, 4}).node("Relu", {"x"}, {"z"}), "output 'y': no node computes it");
  OnnxModel doubled({1, 4});
  doubled.floats("w", {4, 4}, Numbers(16))
      .node("Constant", {}, {"c0"})
      .with("value_ints", Extents{1, 2});
  for (int i = 1; i < 60; ++i) {
    const std::string last = fmt::format("c{}", i - 1);
    doubled.node("Concat", {last, last}, {fmt::format("c{}", i)});
  }
  refused(
      doubled.node("Reshape", {"x", "c59"}),
      "node 'the Concat' (Concat): the constants that nodes compute are too large for the file");
  CHECK_THROWS_AS((void)import_onnx(path_of("none.onnx")), IoError);
}

TEST_CASE("onnx: 10,000 broken files are read or refused") {
  const Random random(7, 0);
  uint64_t drawn = 0;
  int read = 0;
  for (const char* name : {"lenet", "block", "one-axis", "mlp", "images"}) {
    const std::string whole = read_file(path_of(std::string(name) + ".onnx"), 1 << 20);
    for (int i = 0; i < 2000; ++i) {
      std::string bytes = whole;
      const auto place = [&] { return random.below(drawn++, bytes.size()); };
      const auto kind = random.below(drawn++, 4);
      if (kind == 0) bytes.resize(place());
      for (uint64_t k = 0; kind != 0 && k < 1 + random.below(drawn, 4); ++k) {
        const size_t at = place();
        if (kind == 1) bytes[at] = static_cast<char>(random.bits(drawn++));
        if (kind == 2)
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(drawn++, 8)));
        if (kind == 3) bytes.erase(at, 1 + random.below(drawn++, 16));
      }
      try {
        const SavedModel model = parse_onnx(bytes, "broken");
        CHECK(model.parameters.entries().size() <= 64);
        ++read;
      } catch (const FormatError& error) {
        CHECK(std::string_view(error.what()).starts_with("broken: "));
      }
    }
  }
  CHECK(read > 100);
}
