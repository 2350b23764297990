#include "qtape/engine/serialize.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "qtape/core/value_kinds.h"
#include "qtape/io/files.h"
#include "qtape/optim/optimizer.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/folder.h"
#include "qtape/tests/support/models.h"
#include "qtape/tests/support/small_nets.h"

using namespace qtape;

namespace {

std::string error_of(const std::string& text) {
  return test::error_text<FormatError>([&] { (void)model_from_json(text); });
}

/// A file with the given nodes, values and additional top-level members.
std::string file_with(const std::string& nodes, const std::string& values = "",
                      const std::string& more = "") {
  return fmt::format(
      R"({{"format": "qtape", "version": 2, "nodes": [{}], "values": {{{}}}{}}})", nodes,
      values, more);
}

const std::string input = R"({"label": "x", "op": {"Input": {"shape": [2, 3]}}})";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

/// Kind of JSON value that stores a T.
template <class T>
constexpr std::string_view kind_of() {
  if constexpr (NamedEnum<T>) {
    return "name";
  } else if constexpr (is_variant<T>) {
    return "variant";
  } else if constexpr (is_optional<T>) {
    return "optional";
  } else if constexpr (std::is_same_v<T, Tensor>) {
    return "tensor";
  } else if constexpr (std::is_same_v<T, Shape>) {
    return "shape";
  } else if constexpr (Described<T>) {
    return "structure";
  } else if constexpr (is_vector<T>) {
    return "list";
  } else if constexpr (std::is_same_v<T, bool>) {
    return "truth";
  } else if constexpr (std::is_integral_v<T>) {
    return "integer";
  } else if constexpr (std::is_floating_point_v<T>) {
    return "number";
  } else {
    return "text";
  }
}

using Kinds = std::set<std::string_view>;

/// Adds the kinds that a T may contain, at any depth.
template <class T>
void add_declared(Kinds& kinds) {
  const auto add_fields = [&]<class X>() {
    for_each_field<X>([&]<class O, class F>(const Field<O, F>&) { add_declared<F>(kinds); });
  };
  kinds.insert(kind_of<T>());
  if constexpr (is_variant<T>) {
    for_each_alternative<T>(add_fields);
  } else if constexpr (is_optional<T>) {
    kinds.insert("null");
    add_declared<typename T::value_type>(kinds);
  } else if constexpr (Described<T>) {
    add_fields.template operator()<T>();
  } else if constexpr (is_vector<T>) {
    add_declared<typename T::value_type>(kinds);
  }
}

/// Adds the kinds that `value` contains.
template <class T>
void add_held(const T& value, Kinds& kinds) {
  const auto add_fields = [&]<class X>(const X& each) {
    for_each_field<X>([&](const auto& f) { add_held(each.*f.member, kinds); });
  };
  kinds.insert(kind_of<T>());
  if constexpr (is_variant<T>) {
    std::visit(add_fields, value);
  } else if constexpr (is_optional<T>) {
    if (!value) kinds.insert("null");
    if (value) add_held(*value, kinds);
  } else if constexpr (Described<T>) {
    add_fields(value);
  } else if constexpr (is_vector<T>) {
    for (const auto& each : value) add_held(each, kinds);
  }
}

std::string golden_path() { return fmt::format("{}{}", QTAPE_TEST_DATA, "/golden.json"); }

}  // namespace

TEST_CASE("format: the golden file holds every feature and comes back letter by letter") {
  const std::string text = read_file(golden_path(), 1 << 20);
  const SavedModel model = model_from_json(text);
  CHECK(to_json(model.graph, model.parameters, model.sections) == text);
  // The file contains every kind of attribute, so a change of the format shows here.
  // docs/ops.md lists the attributes of each op, and completeness_test.cpp converts them to
  // JSON and back.
  Kinds declared;
  Kinds held;
  add_declared<Op>(declared);
  for (const Node& node : model.graph.nodes()) add_held(node.op, held);
  CHECK(declared == held);
  CHECK(model.sections.at("optimizer").settings.size() >= 4);
  CHECK(model.graph.outputs().size() == 3);
}

TEST_CASE("format: save, load and replay give the same bits") {
  const test::Folder folder;
  const test::Classifier c = test::make_classifier();
  Parameters parameters(c.graph, 1);
  Tape tape(c.graph, parameters, {.roots = {c.loss}});
  Optimizer optimizer(parameters, Adam{});
  for (int step = 0; step < 3; ++step) {
    test::feed(tape, c, step);
    tape.forward(mode::qat);
    tape.backward();
    optimizer.step(1e-3);
  }
  save_model(folder.file("m.json"), c.graph, parameters, {{"optimizer", optimizer.save()}});
  SavedModel model = load_model(folder.file("m.json"));
  CHECK(model.graph == c.graph);
  CHECK(model.parameters.sha256() == parameters.sha256());
  CHECK(model.sections.at("optimizer") == optimizer.save());
  Tape replay(model.graph, model.parameters, {});
  test::feed(tape, c, 9);
  test::feed(replay, c, 9);
  tape.forward(mode::eval);
  replay.forward(mode::eval);
  CHECK(test::first_difference(replay.value<float>(c.logits), tape.value<float>(c.logits)) ==
        "");
}

TEST_CASE("format: faults in the text are named by a JSON pointer") {
  CHECK(error_of("") == "/: is not JSON: unexpected or missing text at byte 1");
  CHECK(error_of("{\"format\": NaN}") ==
        "/: is not JSON: unexpected or missing text at byte 12");
  CHECK(error_of("[]") == "/: expected an object, got an array");
  CHECK(error_of("{}") == "/: \"format\" is missing");
  CHECK(error_of(R"({"format": "onnx"})") == "/format: expected \"qtape\", got \"onnx\"");
  CHECK(error_of(R"({"format": "qtape", "version": 1})") == "/version: expected 2, got 1");
  CHECK(
      error_of(file_with("", "", R"(, "a/b": 1)")) ==
      "/a~1b: unknown key; expected one of format, losses, nodes, outputs, sections, values, version");
  CHECK(
      error_of(file_with(R"({"op": "Rleu"})"))
          .starts_with(
              "/nodes/0/op: unknown value \"Rleu\"; expected one of Input, Parameter, State, Constant"));
  CHECK(
      error_of(file_with(input +
                         R"(, {"op": {"FakeQuantize": {"ste": "Tahn"}}, "operands": [0]})")) ==
      "/nodes/1/op/FakeQuantize/ste: unknown value \"Tahn\"; expected one of Identity, ClippedIdentity, Tanh, HardTanh, TanhRange");
  CHECK(
      error_of(file_with(R"({"op": {"FakeQuantize": {"bit": 4}}})"))
          .starts_with(
              "/nodes/0/op/FakeQuantize/bit: unknown attribute; expected one of bits, axis, group_size, range"));
  CHECK(error_of(file_with(R"({"op": {"Relu": {"bit": 4}}})")) ==
        "/nodes/0/op/Relu/bit: unknown attribute; Relu has none");
  CHECK(error_of(file_with(R"({"op": {"FakeQuantize": {"bits": "4"}}})")) ==
        "/nodes/0/op/FakeQuantize/bits: expected an integer, got \"4\"");
  CHECK(error_of(file_with(R"({"op": {"FakeQuantize": {"bits": 4.5}}})")) ==
        "/nodes/0/op/FakeQuantize/bits: expected an integer, got 4.5");
  CHECK(error_of(file_with(R"({"op": {"FakeQuantize": {"bits": 4294967300}}})")) ==
        "/nodes/0/op/FakeQuantize/bits: expected an integer of 32 bits, got 4294967300");
  CHECK(error_of(file_with(
            R"({"op": {"FakeQuantize": {"scale_mode": {"EMA": {"decay": "x"}}}}})")) ==
        "/nodes/0/op/FakeQuantize/scale_mode/EMA/decay: expected a number, got \"x\"");
  CHECK(error_of(file_with(R"({"label": 5, "op": "Relu"})")) ==
        "/nodes/0/label: expected a string, got 5");
}

TEST_CASE("format: graphs that the builder would refuse are refused at their node") {
  CHECK(error_of(file_with(input + R"(, {"op": "Relu", "operands": [2]})")) ==
        "/nodes/1: Relu %1 (%2): operand %2 does not exist; the graph has 1 nodes");
  CHECK(error_of(file_with(input + R"(, {"op": "Relu", "operands": [1]})")) ==
        "/nodes/1: Relu %1 (%1): operand %1 does not exist; the graph has 1 nodes");
  CHECK(error_of(file_with(input + R"(, {"op": "Relu", "operands": [-1]})")) ==
        "/nodes/1: Relu %1 (%-1): operand %-1 does not exist; the graph has 1 nodes");
  CHECK(
      error_of(file_with(input + R"(, {"op": "MatMul", "operands": [0, 0]})")) ==
      "/nodes/1: MatMul %1 (%0 'x' f32[2, 3], %0 'x' f32[2, 3]): inner extents differ: 3 and 2");
  CHECK(error_of(file_with(input, "", R"(, "outputs": [3])")) ==
        "/outputs: node %3 does not exist; the graph has 1 nodes");
  CHECK(error_of(file_with(R"({"label": "x", "op": {"Input": {"shape": [-1]}}})")) ==
        "/nodes/0/op/Input/shape: extent -1 of shape [-1] is negative");
}

TEST_CASE("format: huge numbers and shapes cost no memory and no crash") {
  CHECK(error_of(file_with(R"({"label": "x", "op": {"Input": {"shape": [1e300]}}})")) ==
        "/nodes/0/op/Input/shape/0: expected an integer, got 1e+300");
  CHECK(error_of(file_with(
            R"({"label": "x", "op": {"Input": {"shape": [99999999999999999999]}}})")) ==
        "/nodes/0/op/Input/shape/0: expected an integer, got 1e+20");
  const std::string parameter =
      R"({"label": "w", "op": {"Parameter": {"shape": [1099511627776, 256]}}})";
  CHECK(error_of(file_with(parameter)) ==
        "/values: the value of 'w' f32[1099511627776, 256] is missing");
  CHECK(error_of(file_with(
            parameter,
            R"("w": {"dtype": "f32", "shape": [1099511627776, 256], "data": "AAAA"})")) ==
        "/values/w/data: expected 1125899906842624 bytes for f32[1099511627776, 256], got 3");
}

TEST_CASE("format: a network whose activations do not fit is an error, not a crash") {
  SavedModel model = model_from_json(file_with(
      R"({"label": "x", "op": {"Input": {"shape": [1099511627776, 256]}}}, {"op": "Relu", "operands": [0]})",
      "", R"(, "outputs": [1])"));
  CHECK(test::error_text<Error>([&] {
          Tape tape(model.graph, model.parameters, {});
        }).starts_with("cannot allocate "));
}

TEST_CASE("format: parameters of another graph are not written") {
  const auto graph_of = [](int64_t extent, int count) {
    Graph graph;
    for (int i = 0; i < count; ++i) {
      graph.add(Parameter{.shape = {extent}}, {}, fmt::format("w{}", i));
    }
    return graph;
  };
  const Graph graph = graph_of(3, 1);
  CHECK(test::error_text<GraphError>([&] {
          (void)to_json(graph, Parameters(graph_of(2, 1), 1));
        }) == "'w0' is f32[2], the graph needs f32[3]");
  CHECK(test::error_text<GraphError>([&] {
          (void)to_json(graph, Parameters(graph_of(3, 2), 1));
        }) == "the parameters have 2 values, the graph needs 1");
}

TEST_CASE("format: values that do not fit the graph are refused") {
  const std::string w = R"({"label": "w", "op": {"Parameter": {"shape": [1]}}})";
  CHECK(error_of(file_with(w, R"("v": {})")) ==
        "/values/v: the graph has no parameter or state of this name");
  CHECK(error_of(
            file_with(w, R"("w": {"dtype": "f32", "shape": [2], "data": "AAAAAAAAAAA="})")) ==
        "/values/w: expected f32[1], got f32[2]");
  CHECK(error_of(
            file_with(w, R"("w": {"dtype": "f64", "shape": [1], "data": "AAAAAAAAAAA="})")) ==
        "/values/w: expected f32[1], got f64[1]");
  CHECK(error_of(file_with(w, R"("w": {"dtype": "f32", "shape": [1], "data": "AAA*"})")) ==
        "/values/w/data: expected base64 text, got \"AAA*\"");
  CHECK(error_of(file_with(w, R"("w": {"dtype": "f32", "shape": [1], "data": 7})")) ==
        "/values/w/data: expected base64 text, got 7");
  CHECK(error_of(file_with(w, R"("w": {"dtype": "f32", "shape": [1]})")) ==
        "/values/w: \"data\" is missing");
  CHECK(
      error_of(file_with(w, R"("w": {"dtype": "q7", "shape": [1], "data": ""})")) ==
      "/values/w/dtype: unknown value \"q7\"; expected one of f32, f64, f16, bf16, s32, s16, u16, s8, u8, s64");
}

TEST_CASE("format: every truncation and every damaged byte of a file is refused or harmless") {
  const std::string text = read_file(golden_path(), 1 << 20);
  for (size_t size = 0; size + 2 < text.size(); size += 7) {
    CHECK(error_of(text.substr(0, size)).starts_with("/"));
  }
  const Random random(1, 1);
  for (uint64_t i = 0; i < 3000; ++i) {
    std::string damaged = text;
    damaged[random.below(2 * i, text.size())] = static_cast<char>(random.below(2 * i + 1, 256));
    try {
      const SavedModel model = model_from_json(damaged);
      (void)to_json(model.graph, model.parameters, model.sections);
    } catch (const Error&) {
    }
  }
}

TEST_CASE("format: duplicated and surplus members are refused") {
  const std::string text = read_file(golden_path(), 1 << 20);
  CHECK(error_of(replaced(text, "\"outputs\":", "\"output\":"))
            .starts_with("/output: unknown key"));
  CHECK(error_of(file_with(R"({"op": {"Relu": {}, "Tanh": {}}})")) ==
        "/nodes/0/op: expected a name or an object with one name, got an object");
}

TEST_CASE("format: NaN is refused on save and on load unless it is asked for") {
  const test::Folder folder;
  const std::string path = folder.file("m.json");
  Graph graph;
  graph.add(Parameter{.shape = {2, 2}}, {}, "fc/w");
  graph.add(State{.dtype = DType::F64, .shape = {3}}, {}, "state");
  Parameters parameters(graph, 1);
  save_model(path, graph, parameters);
  const std::string before = read_file(path, 1 << 20);
  const auto refused = [&](const std::string& where) {
    const std::string text = where + " is NaN, and NaN values were not requested";
    CHECK(test::error_text<FormatError>([&] { save_model(path, graph, parameters); }) ==
          path + ": " + text);
    CHECK(read_file(path, 1 << 20) == before);
    CHECK(test::error_text<FormatError>([&] { (void)to_json(graph, parameters); }) == text);
    const std::string kept = to_json(graph, parameters, {}, NanValues::Keep);
    CHECK(test::error_text<FormatError>([&] { (void)model_from_json(kept); }) == text);
    CHECK(model_from_json(kept, NanValues::Keep).parameters.sha256() == parameters.sha256());
    write_file(folder.file("nan.json"), kept);
    CHECK(test::error_text<FormatError>([&] { (void)load_model(folder.file("nan.json")); }) ==
          folder.file("nan.json") + ": " + text);
    CHECK(load_model(folder.file("nan.json"), NanValues::Keep).parameters.sha256() ==
          parameters.sha256());
  };
  parameters.at("state").values<double>()[2] = std::numeric_limits<double>::quiet_NaN();
  refused("/values/state: element 2");
  parameters.at("fc/w").values<float>()[3] = -std::numeric_limits<float>::quiet_NaN();
  refused("/values/fc~1w: element 3");
  Parameters infinite(graph, 1);
  infinite.at("fc/w").values<float>()[0] = std::numeric_limits<float>::infinity();
  CHECK(model_from_json(to_json(graph, infinite)).parameters.sha256() == infinite.sha256());
}

TEST_CASE("format: names from files are cut and escaped where they are wrong") {
  const std::string x(100, 'x');
  const std::string shown = std::string(80, 'x') + "...";
  const std::string w =
      fmt::format(R"({{"label": "{}", "op": {{"Parameter": {{"shape": [1]}}}}}})", x);
  CHECK(error_of(file_with(w)) ==
        fmt::format("/values: the value of '{}' f32[1] is missing", shown));
  CHECK(error_of(file_with(w + ", " + w)) ==
        fmt::format("/nodes/1: Parameter %1 '{0}': label '{0}' is already used by %0", shown));
  CHECK(error_of(file_with("", fmt::format(R"("\u0007{}": 1)", "w"))) ==
        "/values/\\u0007w: the graph has no parameter or state of this name");
  const std::string value =
      fmt::format(R"("{}": {{"dtype": "f32", "shape": [1], "data": "AAAAAA=="}})", x);
  const SavedModel model = model_from_json(file_with(w, value));
  CHECK(test::error_text<GraphError>([&] { (void)model.parameters.at("a\tb"); }) ==
        "no parameter or state is called 'a\\tb'; the nearest is '" + shown + "'");
  CHECK(to_string(model.graph).find("'" + shown + "'") != std::string::npos);
}

TEST_CASE("format: labels that are no text cannot be saved") {
  Graph graph;
  graph.add(Input{.shape = {1}}, {}, "\xff");
  const Parameters parameters(graph, 1);
  CHECK(test::error_text<FormatError>([&] { (void)to_json(graph, parameters); }) ==
        "/: the label, name or setting '\\xff' is not UTF-8");
}
