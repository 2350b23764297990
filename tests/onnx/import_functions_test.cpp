// Functions of ONNX models, outputs by name, and names of layers.
#include <doctest/doctest.h>

#include "qtape/engine/tape.h"
#include "qtape/tests/support/onnx_models.h"

using namespace qtape;
using namespace qtape::test::onnx_models;

namespace {

/// Adds an empty function of the domain `pkg`.
onnx::FunctionProto& add_function(onnx::ModelProto& model, const char* name,
                                  const std::vector<const char*>& inputs,
                                  const std::vector<const char*>& outputs) {
  onnx::FunctionProto& function = *model.add_functions();
  function.set_name(name);
  function.set_domain("pkg");
  for (const char* each : inputs) function.add_input(each);
  for (const char* each : outputs) function.add_output(each);
  return function;
}

onnx::NodeProto& add_to(onnx::FunctionProto& function, const char* type, const char* input,
                        const char* output, const char* domain = "") {
  onnx::NodeProto& node = *function.add_node();
  node.set_op_type(type);
  node.set_domain(domain);
  node.add_input(input);
  node.add_output(output);
  return node;
}

onnx::NodeProto& add_call(onnx::GraphProto& graph, const char* name, const char* input = "x",
                          const char* output = "y") {
  onnx::NodeProto& node = add_node(graph, name, {input}, output);
  node.set_domain("pkg");
  return node;
}

std::vector<std::string> ops_of(const SavedModel& model) {
  std::vector<std::string> names;
  for (const Node& node : model.graph.nodes()) {
    names.push_back(std::visit([](const auto& op) { return std::string(op.name); }, node.op));
  }
  return names;
}

onnx::AttributeProto& add_attribute(onnx::NodeProto& node, const char* name,
                                    onnx::AttributeProto::AttributeType type) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(type);
  return attribute;
}

}  // namespace

TEST_CASE("onnx: functions become their nodes, also within functions") {
  const SavedModel model =
      parse_onnx(model_of({1, 4},
                          [](auto& graph, auto& proto) {
                            auto& inner = add_function(proto, "Inner", {"a"}, {"b"});
                            add_to(inner, "Relu", "a", "t");
                            add_to(inner, "Tanh", "t", "b");
                            auto& outer = add_function(proto, "Outer", {"a"}, {"b", "unused"});
                            add_to(outer, "Inner", "a", "t", "pkg");
                            add_to(outer, "Inner", "t", "b", "pkg");
                            add_to(outer, "Foo", "t", "unused");
                            add_call(graph, "Outer", "x", "t");
                            add_call(graph, "Outer", "t", "y");
                          }),
                 "m");
  CHECK(ops_of(model) == std::vector<std::string>{"Input", "Relu", "Tanh", "Relu", "Tanh",
                                                  "Relu", "Tanh", "Relu", "Tanh", "Reshape"});
  CHECK(model.graph[model.graph.outputs()[0]].label == "y");
}

TEST_CASE("onnx: attributes of functions are those of the call") {
  for (const bool given : {false, true}) {
    const SavedModel model = parse_onnx(
        model_of({1, 4},
                 [&](auto& graph, auto& proto) {
                   auto& function = add_function(proto, "Leak", {"a"}, {"b"});
                   function.add_attribute("slope");
                   auto& node = add_to(function, "LeakyRelu", "a", "b");
                   add_attribute(node, "alpha", onnx::AttributeProto::FLOAT)
                       .set_ref_attr_name("slope");
                   auto& call = add_call(graph, "Leak");
                   if (!given) return;
                   add_attribute(call, "slope", onnx::AttributeProto::FLOAT).set_f(0.5f);
                 }),
        "m");
    CHECK(std::get<LeakyRelu>(model.graph[NodeId{1}].op).negative_slope ==
          (given ? 0.5 : static_cast<double>(0.01f)));
  }
}

TEST_CASE("onnx: an output of a function may be its input") {
  const SavedModel model = parse_onnx(model_of({1, 4},
                                               [](auto& graph, auto& proto) {
                                                 add_function(proto, "Nothing", {"a"}, {"a"});
                                                 add_call(graph, "Nothing", "x", "t");
                                                 add_node(graph, "Relu", {"t"});
                                               }),
                                      "m");
  CHECK(ops_of(model) == std::vector<std::string>{"Input", "Relu", "Reshape"});
}

TEST_CASE("onnx: calls of functions that cannot be replaced are refused by their node") {
  refused("m.onnx: node 'the Self' (Self): function 'Self' calls itself", {1, 4},
          [](auto& graph, auto& proto) {
            add_to(add_function(proto, "Self", {"a"}, {"b"}), "Self", "a", "b", "pkg");
            add_call(graph, "Self");
          });
  refused(
      "m.onnx: node 'the F' (F): function 'F': the number of inputs is 2, expected at most 1",
      {1, 4}, [](auto& graph, auto& proto) {
        add_to(add_function(proto, "F", {"a"}, {"b"}), "Relu", "a", "b");
        add_call(graph, "F").add_input("x");
      });
  refused(
      "m.onnx: node 'the F' (F): function 'F': the number of outputs is 2, expected at most 1",
      {1, 4}, [](auto& graph, auto& proto) {
        add_to(add_function(proto, "F", {"a"}, {"b"}), "Relu", "a", "b");
        add_call(graph, "F").add_output("z");
      });
  refused("m.onnx: node 'the F' (F): function 'F' has no attribute 'k'", {1, 4},
          [](auto& graph, auto& proto) {
            add_to(add_function(proto, "F", {"a"}, {"b"}), "Relu", "a", "b");
            set_integers(add_call(graph, "F"), "k", {1});
          });
  refused("m.onnx: node 'the F' (F): function 'F' is of opset 11, the model of 13", {1, 4},
          [](auto& graph, auto& proto) {
            auto& function = add_function(proto, "F", {"a"}, {"b"});
            add_to(function, "Relu", "a", "b");
            function.add_opset_import()->set_version(11);
            add_call(graph, "F");
          });
  refused(
      "m.onnx: node 'the F/Foo' (Foo): the operator is not supported: replace it with operators listed in docs/limits.md",
      {1, 4}, [](auto& graph, auto& proto) {
        add_to(add_function(proto, "F", {"a"}, {"b"}), "Foo", "a", "b");
        add_call(graph, "F");
      });
}

TEST_CASE("onnx: functions that double with each level are refused before memory is taken") {
  for (const bool deep : {false, true}) {
    const std::string text =
        deep
            ? "m.onnx: node 'the F99' (F99): more than 64 functions call each other"
            : "m.onnx: node 'the F40' (F40): the bodies of its functions are too large for the file";
    refused(text, {1, 4}, [&](auto& graph, auto& proto) {
      const int levels = deep ? 100 : 41;
      for (int i = 0; i < levels; ++i) {
        auto& function = add_function(proto, fmt::format("F{}", i).c_str(), {"a"}, {"b"});
        const std::string below = i == 0 ? "Relu" : fmt::format("F{}", i - 1);
        const char* domain = i == 0 ? "" : "pkg";
        add_to(function, below.c_str(), "a", deep ? "b" : "t", domain);
        if (!deep) add_to(function, below.c_str(), "t", "b", domain);
      }
      add_call(graph, fmt::format("F{}", levels - 1).c_str());
    });
  }
}

TEST_CASE("onnx: a model may end at a value, a node or a module of the file") {
  const std::string bytes = model_of({1, 4}, [](auto& graph, auto&) {
    add_node(graph, "Relu", {"x"}, "a").set_name("/body/act/Relu");
    add_node(graph, "Tanh", {"a"}, "b").set_name("/body/act/Tanh");
    add_node(graph, "Softmax", {"b"});
  });
  const auto ends = [&](std::vector<std::string> names) {
    const SavedModel model =
        parse_onnx(bytes, "m.onnx", nullptr, {.outputs = std::move(names)});
    std::vector<std::string> labels;
    for (const NodeId id : model.graph.outputs()) labels.push_back(model.graph[id].label);
    return labels;
  };
  using Names = std::vector<std::string>;
  CHECK(ends({"a"}) == Names{"a"});
  CHECK(ends({"/body/act/Relu"}) == Names{"a"});
  CHECK(ends({"body.act"}) == Names{"b"});
  CHECK(ends({"b", "a"}) == Names{"b", "a"});
  CHECK(
      test::error_text<FormatError>([&] { (void)ends({"body.axt"}); }) ==
      "m.onnx: output 'body.axt': no node, module or value has this name; the nearest are 'body.act', 'a'");
}

TEST_CASE("onnx: nodes without a name are called by their kind and number") {
  const SavedModel model = parse_onnx(
      model_of({1, 2, 4, 4},
               [](auto& graph, auto&) {
                 for (const char* name : {"onnx::Conv_1", "onnx::Conv_2"}) {
                   add_floats(graph, name, {2, 2, 1, 1}, std::vector<float>(4, 1));
                 }
                 add_node(graph, "Conv", {"x", "onnx::Conv_1"}, "a").set_name("Conv_0");
                 add_node(graph, "Relu", {"a"}, "b").set_name("Relu_1");
                 add_node(graph, "Conv", {"b", "onnx::Conv_2"}, "c").clear_name();
                 add_node(graph, "Add", {"c", "a"}, "y").clear_name();
               }),
      "m");
  for (const char* label : {"conv1", "conv1.weight", "relu", "conv2", "conv2.weight", "add"}) {
    CAPTURE(std::string(label));
    CHECK(model.graph.find(label));
  }
}
