// ONNX models as exported by PyTorch, and invalid ones of every kind.
#include "qtape/onnx/import.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>

#include "qtape/core/random.h"
#include "qtape/engine/tape.h"
#include "qtape/io/arrays/npy.h"
#include "qtape/io/files.h"
#include "qtape/tests/support/onnx_models.h"
#include "qtape/tests/support/small_nets.h"

using namespace qtape;
using namespace qtape::test::onnx_models;

namespace {

std::string path_of(const std::string& name) {
  return fmt::format("{}/onnx/{}", QTAPE_TEST_DATA, name);
}

std::vector<float> answers(const SavedModel& model, const Tensor& x) {
  Parameters parameters(model.graph, 0);
  for (const ParameterEntry& each : model.parameters.entries()) {
    parameters.set(each.name, model.parameters.get(each.name));
  }
  Tape tape(model.graph.with_batch(x.type.shape[0]), parameters, {});
  const auto input = tape.input<float>("x");
  REQUIRE(static_cast<int64_t>(input.size()) == x.type.elements());
  std::ranges::copy(x.values<float>(), input.begin());
  tape.forward(mode::eval);
  return test::copied(tape.value<float>(model.graph.outputs()[0]));
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
    const std::vector<float> got =
        answers(model, read_npy(path_of(std::string(name) + "-x.npy")));
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
  CHECK(std::ranges::none_of(model.graph.nodes(), [](const Node& node) {
    return std::holds_alternative<Transpose>(node.op);
  }));
  const SavedModel fixed = import_onnx(path_of("lenet-fixed.onnx"));
  CHECK(fixed.graph.size() == model.graph.size());
}

TEST_CASE(
    "onnx: layers without a named weight are called as their modules, outputs as the file says") {
  const SavedModel model = parse_onnx(
      model_of({1, 2, 4, 4},
               [](auto& graph, auto&) {
                 add_floats(graph, "onnx::Conv_12", {3, 2, 1, 1}, std::vector<float>(6, 1));
                 add_floats(graph, "onnx::Conv_13", {3}, std::vector<float>(3));
                 add_node(graph, "Conv", {"x", "onnx::Conv_12", "onnx::Conv_13"}, "a")
                     .set_name("/layer1/layer1.0/conv1/Conv");
                 add_node(graph, "Add", {"a", "a"}).set_name("/layer1/layer1.0/Add_1");
               }),
      "m");
  for (const char* label :
       {"layer1.0.conv1.weight", "layer1.0.conv1.bias", "layer1.0.conv1", "layer1.0.add"}) {
    CAPTURE(std::string(label));
    CHECK(model.graph.find(label));
  }
  CHECK(model.graph[model.graph.outputs()[0]].label == "y");
}

TEST_CASE("onnx: a constant that several nodes read alike is one parameter") {
  const SavedModel model = parse_onnx(model_of({1, 2},
                                               [](auto& graph, auto&) {
                                                 add_floats(graph, "w", {2, 2}, {1, 2, 3, 4});
                                                 add_node(graph, "MatMul", {"x", "w"}, "h");
                                                 add_node(graph, "Gemm", {"h", "w"});
                                               }),
                                      "m");
  CHECK(model.parameters.entries().size() == 1);
  CHECK(model.parameters.get("w") == Tensor::of<float>({2, 2}, std::vector<float>{1, 3, 2, 4}));
}

TEST_CASE("onnx: Max and Min take any number of tensors, limited by numbers among them") {
  const auto result = [](const char* type, bool limited) {
    const SavedModel model =
        parse_onnx(model_of({1, 4},
                            [&](auto& graph, auto&) {
                              add_floats(graph, "one", {}, {1});
                              add_floats(graph, "half", {1}, {0.5f});
                              add_node(graph, "Neg", {"x"}, "n");
                              if (limited) add_node(graph, type, {"half", "x", "one"});
                              if (!limited) add_node(graph, type, {"x", "n", "x"});
                            }),
                   "m");
    return answers(model, Tensor::of<float>({1, 4}, std::vector<float>{-2, 0.25f, 0.75f, 3}));
  };
  CHECK(result("Max", false) == std::vector<float>{2, 0.25f, 0.75f, 3});
  CHECK(result("Min", false) == std::vector<float>{-2, -0.25f, -0.75f, -3});
  CHECK(result("Max", true) == std::vector<float>{1, 1, 1, 3});
  CHECK(result("Min", true) == std::vector<float>{-2, 0.25f, 0.5f, 0.5f});
}

TEST_CASE("onnx: what is not read is refused by its node") {
  refused(
      "m.onnx: node 'the Hardmax' (Hardmax): the operator is not supported: leave it out of the export; compute it afterwards",
      {1, 4}, [](auto& graph, auto&) { add_node(graph, "Hardmax", {"x"}); });
  refused(
      "m.onnx: node 'the Foo' (Foo): the operator is not supported: replace it with operators listed in docs/limits.md",
      {1, 4}, [](auto& graph, auto&) { add_node(graph, "Foo", {"x"}); });
  refused(
      "m.onnx: the node of 'y' (Relu): operators of the domain 'com.microsoft' are not supported",
      {1, 4}, [](auto& graph, auto&) {
        add_node(graph, "Relu", {"x"}).clear_name();
        graph.mutable_node(0)->set_domain("com.microsoft");
      });
  refused("m.onnx: node 'the Add' (Add): input 1, 'z', is not computed by any preceding node",
          {1, 4}, [](auto& graph, auto&) {
            add_node(graph, "Add", {"x", "z"});
          });
  refused(
      "m.onnx: node 'the Transpose' (Transpose): perm [1, 1] is not a permutation of the axes of [1, 4]",
      {1, 4}, [](auto& graph, auto&) {
        set_integers(add_node(graph, "Transpose", {"x"}), "perm", {1, 1});
      });
  refused("m.onnx: node 'the Gemm' (Gemm): the weight expects 3 features, the input has [1, 4]",
          {1, 4}, [](auto& graph, auto&) {
            add_floats(graph, "w", {3, 2}, std::vector<float>(6));
            add_node(graph, "Gemm", {"x", "w"});
          });
  CHECK(error_of(model_of({1, 2, 4, 4}, [](auto& graph, auto&) {
          add_floats(graph, "w", {3, 5, 1, 1}, std::vector<float>(15));
          add_node(graph, "Conv", {"x", "w"});
        })).find("m.onnx: node 'the Conv' (Conv): Conv2d") == 0);
  refused(
      "m.onnx: node 'the MaxPool' (MaxPool): attribute kernel_shape has 1 numbers, expected 2",
      {1, 2, 4, 4}, [](auto& graph, auto&) {
        auto& node = add_node(graph, "MaxPool", {"x"});
        set_integers(node, "kernel_shape", {2});
      });
  refused(
      "m.onnx: node 'the Softmax' (Softmax): attribute axis has the wrong type", {1, 4},
      [](auto& graph, auto&) { set_integers(add_node(graph, "Softmax", {"x"}), "axis", {1}); });
}

TEST_CASE("onnx: all that is not read is one list, and what follows it is checked as well") {
  refused(
      "m.onnx: 5 problems: tensor 'w': its data are in another file, and only its bytes were given; nodes 'act1', 'act2' (Hardmax): the operator is not supported: leave it out of the export; compute it afterwards; node 'the AveragePool' (AveragePool): auto_pad MIDDLE is not supported, dilations other than 1 are not supported; node 'the Conv' (Conv): kernel_shape is not that of the filters",
      {1, 2, 8, 8}, [](auto& graph, auto&) {
        add_floats(graph, "w", {3, 2, 3, 3}, std::vector<float>(54))
            .set_data_location(onnx::TensorProto::EXTERNAL);
        add_floats(graph, "v", {3, 2, 3, 3}, std::vector<float>(54));
        add_node(graph, "Conv", {"x", "w"}, "a");
        add_node(graph, "Relu", {"a"}, "b");
        add_node(graph, "Hardmax", {"x"}, "c").set_name("act1");
        auto& pool = add_node(graph, "AveragePool", {"c"}, "d");
        set_integers(pool, "kernel_shape", {2, 2});
        set_integers(pool, "dilations", {2, 2});
        auto& automatic = *pool.add_attribute();
        automatic.set_name("auto_pad");
        automatic.set_type(onnx::AttributeProto::STRING);
        automatic.set_s("MIDDLE");
        add_node(graph, "Hardmax", {"d"}, "e").set_name("act2");
        auto& conv = add_node(graph, "Conv", {"c", "v"}, "f");  // its input has the shape that
                                                                // Hardmax keeps
        set_integers(conv, "kernel_shape", {5, 5});
        add_node(graph, "Concat", {"b", "e", "f"});
      });
}

TEST_CASE("onnx: attributes and outputs that change a result are not passed over") {
  refused("m.onnx: node 'the Relu' (Relu): attribute threshold is not supported", {1, 4},
          [](auto& graph, auto&) {
            set_integers(add_node(graph, "Relu", {"x"}), "threshold", {1});
          });
  refused("m.onnx: node 'the MaxPool' (MaxPool): output 1, 'y', is not supported", {1, 2, 4, 4},
          [](auto& graph, auto&) {
            auto& pool = add_node(graph, "MaxPool", {"x"}, "p");
            set_integers(pool, "kernel_shape", {2, 2});
            pool.add_output("y");
          });
}

TEST_CASE("onnx: what no output needs is not read, and that is noted") {
  std::vector<std::string> notes;
  const SavedModel model =
      parse_onnx(model_of({1, 4},
                          [](auto& graph, auto&) {
                            auto& text = *graph.add_initializer();
                            text.set_name("words");
                            text.set_data_type(onnx::TensorProto::STRING);
                            auto* mask = graph.add_input();
                            mask->set_name("mask");
                            mask->mutable_type()->mutable_tensor_type()->set_elem_type(
                                onnx::TensorProto::INT64);
                            add_node(graph, "NonZero", {"x"}, "places");
                            add_node(graph, "TopK", {"places"}, "z");
                            auto& drop = add_node(graph, "Dropout", {"x"});
                            drop.add_output("unused");
                          }),
                 "m.onnx", &notes);
  CHECK(model.parameters.entries().empty());
  CHECK(std::ranges::count_if(model.graph.nodes(), [](const Node& node) {
          return std::holds_alternative<Input>(node.op);
        }) == 1);
  CHECK(notes == std::vector<std::string>{"input 'mask' is left out: no output needs it",
                                          "2 nodes are left out: no output needs them"});
}

TEST_CASE("onnx: an input of integers that nodes only cast to floats is f32") {
  for (const bool other : {false, true}) {
    std::vector<std::string> notes;
    const std::string bytes = model_of({1, 4}, [other](auto& graph, auto&) {
      graph.mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(
          onnx::TensorProto::UINT8);
      auto& to = *add_node(graph, "Cast", {"x"}, other ? "f" : "y").add_attribute();
      to.set_name("to");
      to.set_type(onnx::AttributeProto::INT);
      to.set_i(onnx::TensorProto::FLOAT);
      if (other) add_node(graph, "Add", {"f", "x"});
    });
    if (other) {
      CHECK(error_of(bytes) == "m.onnx: input 'x': expected FLOAT, INT32 or INT64, got UINT8");
      continue;
    }
    const SavedModel model = parse_onnx(bytes, "m.onnx", &notes);
    CHECK(model.graph[NodeId{0}].type.dtype == DType::F32);
    CHECK(
        notes ==
        std::vector<std::string>{
            "input 'x' is read as f32: all nodes cast its integers to floats; give it arrays of "
            "f32, as those of u8 are divided by 255"});
  }
}

TEST_CASE("onnx: filters over one axis make inputs channels last, wherever they are kept") {
  for (const bool node : {false, true}) {
    const SavedModel model =
        parse_onnx(model_of({1, 3, 8},
                            [&](auto& graph, auto&) {
                              add_floats(graph, "w", {2, 3, 3}, std::vector<float>(18, 1));
                              if (node) {
                                auto& made = add_node(graph, "Constant", {}, "w");
                                auto& value = *made.add_attribute();
                                value.set_name("value");
                                value.set_type(onnx::AttributeProto::TENSOR);
                                *value.mutable_t() = graph.initializer(0);
                                graph.clear_initializer();
                              }
                              add_node(graph, "Conv", {"x", "w"});
                            }),
                   "m");
    CHECK(model.graph[model.graph.at("x")].type.shape == Shape{1, 8, 3});
    CHECK(model.graph[model.graph.outputs()[0]].type.shape == Shape{1, 6, 2});
  }
}

TEST_CASE("onnx: axes of one element move without a transpose") {
  const SavedModel model = parse_onnx(model_of({1, 1, 4, 5},
                                               [](auto& graph, auto&) {
                                                 auto& node = add_node(graph, "Squeeze", {"x"});
                                                 set_integers(node, "axes", {1});
                                               }),
                                      "m");
  CHECK(std::ranges::none_of(model.graph.nodes(), [](const Node& node) {
    return std::holds_alternative<Transpose>(node.op);
  }));
  CHECK(model.graph[model.graph.outputs()[0]].type.shape == Shape{1, 4, 5});
}

TEST_CASE("onnx: Reshape with allowzero takes extents as they are") {
  const auto reshaped = [](std::vector<int64_t> shape) {
    return model_of({1, 6}, [&](auto& graph, auto&) {
      set_integers(add_node(graph, "Constant", {}, "s"), "value_ints", shape);
      auto& attribute = *add_node(graph, "Reshape", {"x", "s"}).add_attribute();
      attribute.set_name("allowzero");
      attribute.set_type(onnx::AttributeProto::INT);
      attribute.set_i(1);
    });
  };
  const SavedModel model = parse_onnx(reshaped({-1, 2, 3}), "m");
  CHECK(model.graph[model.graph.outputs()[0]].type.shape == Shape{1, 2, 3});
  CHECK(
      error_of(reshaped({0, 2, 3})) ==
      "m.onnx: node 'the Reshape' (Reshape): with allowzero [0, 2, 3] has no elements, and empty tensors are not supported");
}

TEST_CASE("onnx: the batch extent among numbers is called so") {
  const auto shape_of = [](auto& graph) { add_node(graph, "Shape", {"x"}, "shape"); };
  refused(
      "m.onnx: node 'the Reshape' (Reshape): extent batch is not a valid number of elements",
      {1, 4}, [&](auto& graph, auto&) {
        shape_of(graph);
        add_floats(graph, "w", {2, 2}, {1, 2, 3, 4});
        add_node(graph, "Reshape", {"w", "shape"}, "z");
        add_node(graph, "Add", {"x", "z"});
      });
  refused(
      "m.onnx: node 'the Mul' (Mul): Mul of batch and batch depends on the number of samples",
      {1, 4}, [&](auto& graph, auto&) {
        shape_of(graph);
        add_node(graph, "Mul", {"shape", "shape"}, "z");
        add_node(graph, "Reshape", {"x", "z"});
      });
  refused("m.onnx: node 'the Reshape' (Reshape): axis 2 takes the batch extent", {1, 4},
          [&](auto& graph, auto&) {
            shape_of(graph);
            add_node(graph, "Concat", {"shape", "shape"}, "z");
            add_node(graph, "Reshape", {"x", "z"});
          });
}

TEST_CASE("onnx: numbers beyond any tensor are refused before they are added up") {
  refused(
      "m.onnx: node 'the Pad' (Pad): 4611686018427387904 exceeds the largest tensor", {1, 4},
      [](auto& graph, auto&) {
        set_integers(add_node(graph, "Constant", {}, "p"), "value_ints", {0, huge, 0, huge});
        add_node(graph, "Pad", {"x", "p"});
      });
  refused(
      "m.onnx: node 'the Reshape' (Reshape): extents 1 and 4611686018427387904 exceed the largest tensor",
      {1, 4}, [](auto& graph, auto&) {
        set_integers(add_node(graph, "Constant", {}, "s"), "value_ints", {-1, huge, huge});
        add_node(graph, "Reshape", {"x", "s"});
      });
}

TEST_CASE("onnx: files that are no models, of other opsets or with other data") {
  CHECK(error_of("") == "m.onnx: is not an ONNX model");
  CHECK(error_of("not a model") == "m.onnx: is not an ONNX model");
  refused("m.onnx: expected opset 9 to 23, got 8", {1, 4}, [](auto& graph, auto& model) {
    add_node(graph, "Relu", {"x"});
    model.mutable_opset_import(0)->set_version(8);
  });
  refused("m.onnx: two initializers are named 'w'", {1, 4}, [](auto& graph, auto&) {
    add_floats(graph, "w", {4, 1}, {1, 2, 3, 4});
    add_floats(graph, "w", {4, 1}, {4, 3, 2, 1});
    add_node(graph, "MatMul", {"x", "w"});
  });
  refused(
      "m.onnx: 'y' is the output of two nodes, or of a node and also an input or an initializer",
      {1, 4}, [](auto& graph, auto&) {
        add_node(graph, "Relu", {"x"});
        add_node(graph, "Tanh", {"x"});
      });
  refused("m.onnx: tensor 'w' has 400000000 elements, its data 2", {1, 4},
          [](auto& graph, auto&) {
            add_floats(graph, "w", {4, 100000000}, {1, 2});
            add_node(graph, "MatMul", {"x", "w"});
          });
  refused("m.onnx: tensor 'w': its data are in another file, and only its bytes were given",
          {1, 4}, [](auto& graph, auto&) {
            add_floats(graph, "w", {4, 1}, {}).set_data_location(onnx::TensorProto::EXTERNAL);
            add_node(graph, "MatMul", {"x", "w"});
          });
  refused("m.onnx: tensor 'w' has the extent -4", {1, 4}, [](auto& graph, auto&) {
    add_floats(graph, "w", {-4}, {});
    add_node(graph, "Add", {"x", "w"});
  });
  refused("m.onnx: input 'x': extent 1 must be a number, got 'width'", {1, 4},
          [](auto& graph, auto&) {
            graph.mutable_input(0)
                ->mutable_type()
                ->mutable_tensor_type()
                ->mutable_shape()
                ->mutable_dim(1)
                ->set_dim_param("width");
            add_node(graph, "Relu", {"x"});
          });
  refused("m.onnx: output 'y': no node computes it", {1, 4},
          [](auto& graph, auto&) { add_node(graph, "Relu", {"x"}, "z"); });
  refused(
      "m.onnx: node 'the Concat' (Concat): the constants that nodes compute are too large for the file",
      {1, 4}, [](auto& graph, auto&) {
        std::string last = "c0";
        add_floats(graph, "w", {4, 4}, std::vector<float>(16));
        set_integers(add_node(graph, "Constant", {}, "c0"), "value_ints", {1, 2});
        for (int i = 1; i < 60; ++i) {  // doubles each time
          const std::string next = fmt::format("c{}", i);
          add_node(graph, "Concat", {last, last}, next.c_str());
          last = next;
        }
        add_node(graph, "Reshape", {"x", "c59"});
      });
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
