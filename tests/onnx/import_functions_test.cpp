// Functions of ONNX models, outputs by name, and names of layers.
#include "qtape/tests/onnx/onnx_model.h"

using namespace qtape;
using namespace qtape::test::onnx_models;

namespace {

using Names = std::vector<std::string>;

/// A model whose functions have the domain `pkg`, one input a and the output b.
struct WithFunctions : OnnxModel {
  WithFunctions() : OnnxModel({1, 4}) {}

  onnx::FunctionProto& function(const std::string& name, const Names& outputs = {"b"}) {
    onnx::FunctionProto& made = *proto().add_functions();
    made.set_name(name);
    made.set_domain("pkg");
    made.add_input("a");
    for (const std::string& each : outputs) made.add_output(each);
    return made;
  }
  /// Adds a function F of one node.
  onnx::FunctionProto& function_of(const char* type);
  /// Adds a node that calls a function.
  OnnxModel& call(const std::string& name, const char* input = "x",
                  const Names& outputs = {"y"}) {
    return node(name, {input}, outputs).of_domain("pkg");
  }
};

onnx::NodeProto& add_to(onnx::FunctionProto& function, const std::string& type,
                        const char* input, const char* output, const char* domain = "") {
  onnx::NodeProto& node = *function.add_node();
  node.set_op_type(type);
  node.set_domain(domain);
  node.add_input(input);
  node.add_output(output);
  return node;
}

onnx::FunctionProto& WithFunctions::function_of(const char* type) {
  onnx::FunctionProto& made = function("F");
  add_to(made, type, "a", "b");
  return made;
}

Names ops_of(const SavedModel& model) {
  Names names;
  for (const Node& node : model.graph.nodes()) {
    names.push_back(std::visit([](const auto& op) { return std::string(op.name); }, node.op));
  }
  return names;
}

}  // namespace

TEST_CASE("onnx: functions become their nodes, also within functions") {
  WithFunctions made;
  auto& inner = made.function("Inner");
  add_to(inner, "Relu", "a", "t");
  add_to(inner, "Tanh", "t", "b");
  auto& outer = made.function("Outer", {"b", "unused"});
  add_to(outer, "Inner", "a", "t", "pkg");
  add_to(outer, "Inner", "t", "b", "pkg");
  add_to(outer, "Foo", "t", "unused");
  made.call("Outer", "x", {"t"});
  made.call("Outer", "t");
  const SavedModel model = made.imported();
  CHECK(ops_of(model) == Names{"Input", "Relu", "Tanh", "Relu", "Tanh", "Relu", "Tanh", "Relu",
                               "Tanh", "Reshape"});
  CHECK(model.graph[model.graph.outputs()[0]].label == "y");
}

TEST_CASE("onnx: attributes of functions are those of the call") {
  for (const bool given : {false, true}) {
    WithFunctions made;
    auto& function = made.function_of("LeakyRelu");
    function.add_attribute("slope");
    auto& attribute = *function.mutable_node(0)->add_attribute();
    attribute.set_name("alpha");
    attribute.set_type(onnx::AttributeProto::FLOAT);
    attribute.set_ref_attr_name("slope");
    made.call("F");
    if (given) made.with("slope", 0.5f);
    CHECK(std::get<LeakyRelu>(made.imported().graph[NodeId{1}].op).negative_slope ==
          (given ? 0.5 : static_cast<double>(0.01f)));
  }
}

TEST_CASE("onnx: an output of a function may be its input") {
  WithFunctions made;
  made.function("Nothing", {"a"});
  made.call("Nothing", "x", {"t"}).node("Relu", {"t"});
  CHECK(ops_of(made.imported()) == Names{"Input", "Relu", "Reshape"});
}

TEST_CASE("onnx: calls of functions that cannot be replaced are refused by their node") {
  WithFunctions self;
  add_to(self.function("Self"), "Self", "a", "b", "pkg");
  refused(self.call("Self"), "node 'the Self' (Self): function 'Self' calls itself");
  WithFunctions relu;
  relu.function_of("Relu");
  const auto called = [&] { return WithFunctions(relu).call("F"); };
  const std::string place = "node 'the F' (F): function 'F'";
  refused(called().input(1, "x"), place + ": the number of inputs is 2, expected at most 1");
  OnnxModel more = called();
  more.last().add_output("z");
  refused(more, place + ": the number of outputs is 2, expected at most 1");
  refused(called().with("k", Extents{1}), place + " has no attribute 'k'");
  WithFunctions old;
  old.function_of("Relu").add_opset_import()->set_version(11);
  refused(old.call("F"), place + " is of opset 11, the model of 17");
  WithFunctions foo;
  foo.function_of("Foo");
  refused(
      foo.call("F"),
      "node 'the F/Foo' (Foo): the operator is not supported: replace it with operators listed in docs/limits.md");
}

TEST_CASE("onnx: functions that double with each level are refused before memory is taken") {
  for (const bool deep : {false, true}) {
    WithFunctions made;
    const int levels = deep ? 100 : 41;
    for (int i = 0; i < levels; ++i) {
      auto& function = made.function(fmt::format("F{}", i));
      const std::string below = i == 0 ? "Relu" : fmt::format("F{}", i - 1);
      const char* domain = i == 0 ? "" : "pkg";
      add_to(function, below, "a", deep ? "b" : "t", domain);
      if (!deep) add_to(function, below, "t", "b", domain);
    }
    refused(
        made.call(fmt::format("F{}", levels - 1)),
        deep ? "node 'the F99' (F99): more than 64 functions call each other"
             : "node 'the F40' (F40): the bodies of its functions are too large for the file");
  }
}

TEST_CASE("onnx: a model may end at a value, a node or a module of the file") {
  const std::string bytes = OnnxModel({1, 4})
                                .node("Relu", {"x"}, {"a"})
                                .named("/body/act/Relu")
                                .node("Tanh", {"a"}, {"b"})
                                .named("/body/act/Tanh")
                                .node("Softmax", {"b"})
                                .bytes();
  const auto ends = [&](Names names) {
    const SavedModel model =
        parse_onnx(bytes, "m.onnx", nullptr, {.outputs = std::move(names)});
    Names labels;
    for (const NodeId id : model.graph.outputs()) labels.push_back(model.graph[id].label);
    return labels;
  };
  CHECK(ends({"a"}) == Names{"a"});
  CHECK(ends({"/body/act/Relu"}) == Names{"a"});
  CHECK(ends({"body.act"}) == Names{"b"});
  CHECK(ends({"body"}) == Names{"b"});
  CHECK(ends({"b", "a"}) == Names{"b", "a"});
  CHECK(
      test::error_text<FormatError>([&] { (void)ends({"body.axt"}); }) ==
      "m.onnx: output 'body.axt': no node, module or value has this name; the nearest are 'body.act', 'body'");
}

TEST_CASE("onnx: nodes without a name are called by their kind and number") {
  const SavedModel model = OnnxModel({1, 2, 4, 4})
                               .floats("onnx::Conv_1", {2, 2, 1, 1}, Numbers(4, 1))
                               .floats("onnx::Conv_2", {2, 2, 1, 1}, Numbers(4, 1))
                               .node("Conv", {"x", "onnx::Conv_1"}, {"a"})
                               .named("Conv_0")
                               .node("Relu", {"a"}, {"b"})
                               .named("Relu_1")
                               .node("Conv", {"b", "onnx::Conv_2"}, {"c"})
                               .named("")
                               .node("Add", {"c", "a"})
                               .named("")
                               .imported();
  for (const char* label : {"conv1", "conv1.weight", "relu", "conv2", "conv2.weight", "add"}) {
    CAPTURE(std::string(label));
    CHECK(model.graph.find(label));
  }
}
