// Numbers that ONNX models compute from shapes.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "qtape/onnx/import/batch_numbers.h"
#include "qtape/tests/support/onnx_models.h"

using namespace qtape;
using namespace qtape::test::onnx_models;

namespace {

using Numbers = std::vector<int64_t>;

void add_integers(onnx::GraphProto& graph, const char* name, const Numbers& numbers) {
  set_integers(add_node(graph, "Constant", {}, name), "value_ints", numbers);
}

/// Returns the output's shape of a model with input x [batch, 6, 4] that is reshaped to
/// `shape`, which `build` computes.
template <class Build>
Shape reshaped(const Build& build, int64_t batch = 0) {
  const SavedModel model = parse_onnx(model_of({batch, 6, 4},
                                               [&](auto& graph, auto&) {
                                                 add_node(graph, "Shape", {"x"}, "all");
                                                 build(graph);
                                                 add_node(graph, "Reshape", {"x", "shape"});
                                               }),
                                      "m");
  return model.graph[model.graph.outputs()[0]].type.shape;
}

int64_t folded(std::string_view op, int64_t a, int64_t b, int64_t samples = 0) {
  return folded_integers(op, a, b, samples);
}

constexpr int64_t n = onnx_batch;

}  // namespace

TEST_CASE("onnx: multiples of the batch extent are computed exactly") {
  const int64_t twice = batch_times(2), six = batch_times(6);
  CHECK(onnx_number(n) == "batch");
  CHECK(onnx_number(six) == "6 batch");
  struct Row {
    const char* op;
    int64_t a, b, wanted;
  };
  const Row rows[] = {
      {"Add", n, n, twice}, {"Add", 0, n, n},         {"Sub", six, n, batch_times(5)},
      {"Sub", n, n, 0},     {"Mul", n, 6, six},       {"Mul", 3, twice, six},
      {"Mul", n, 0, 0},     {"Div", six, 3, twice},   {"Div", six, twice, 3},
      {"Mod", six, 3, 0},   {"Mod", six, twice, 0},   {"Div", 7, 2, 3},
      {"Mod", -7, 3, 2},    {"FMod", -7, 3, -1},      {"Equal", n, -1, 0},
      {"Equal", n, 0, 0},   {"Equal", twice, 3, 0},   {"Equal", n, n, 1},
      {"Less", n, 1, 0},    {"Less", 0, n, 1},        {"Greater", n, 0, 1},
      {"Greater", 1, n, 0}, {"LessOrEqual", 1, n, 1}, {"GreaterOrEqual", n, 1, 1},
      {"Max", n, 1, n},     {"Max", 0, n, n},         {"Min", n, 1, 1},
      {"Min", n, twice, n}, {"And", n, 1, 1},         {"Or", 0, n, 1}};
  for (const Row& row : rows) {
    CAPTURE(std::string(row.op));
    CAPTURE(onnx_number(row.a));
    CAPTURE(onnx_number(row.b));
    CHECK(folded(row.op, row.a, row.b) == row.wanted);
  }
  CHECK(folded("Equal", n, 3, 3) == 1);
  CHECK(folded("Less", n, 3, 3) == 0);
}

TEST_CASE("onnx: numbers that depend on the batch in other ways are refused") {
  const std::tuple<const char*, int64_t, int64_t, const char*> rows[] = {
      {"Add", n, 1, "Add of batch and 1 depends on the number of samples"},
      {"Sub", n, batch_times(2), "Sub of batch and 2 batch depends on the number of samples"},
      {"Mul", n, -1, "Mul of batch and -1 depends on the number of samples"},
      {"Mul", n, n, "Mul of batch and batch depends on the number of samples"},
      {"Div", batch_times(3), 2, "Div of 3 batch and 2 depends on the number of samples"},
      {"Mod", n, 2, "Mod of batch and 2 depends on the number of samples"},
      {"Equal", n, 3, "Equal of batch and 3 depends on the number of samples"},
      {"Less", n, 2, "Less of batch and 2 depends on the number of samples"},
      {"Greater", n, 1, "Greater of batch and 1 depends on the number of samples"},
      {"Max", n, 2, "Max of batch and 2 depends on the number of samples"},
      {"Div", 1, 0, "division by 0"},
      {"Add", INT64_MAX, 1, "Add of 9223372036854775807 and 1 overflows"}};
  for (const auto& [op, a, b, text] : rows) {
    const std::string got =
        test::error_text<FormatError>([op = op, a = a, b = b] { (void)folded(op, a, b); });
    CHECK(got == text);
  }
}

TEST_CASE("onnx: shapes are computed as exporters write them") {
  // x.view(x.size(0), 2, x.size(1) // 2, -1)
  CHECK(reshaped([](auto& graph) {
          for (const char* axis : {"0", "1"}) {
            const std::string name(axis);
            add_integers(graph, ("i" + name).c_str(), {std::stoll(name)});
            add_node(graph, "Gather", {"all", "i" + name}, ("e" + name).c_str());
          }
          add_integers(graph, "two", {2});
          add_integers(graph, "rest", {-1});
          add_node(graph, "Div", {"e1", "two"}, "half");
          add_node(graph, "Concat", {"e0", "two", "half", "rest"}, "shape");
        }) == Shape{1, 2, 3, 4});
  // x.flatten(0, 1) and back
  CHECK(reshaped([](auto& graph) {
          add_integers(graph, "factor", {6});
          add_integers(graph, "zero", {0});
          add_integers(graph, "one", {1});
          add_node(graph, "Slice", {"all", "zero", "one"}, "first");
          add_node(graph, "Mul", {"first", "factor"}, "rows");
          add_integers(graph, "four", {4});
          add_node(graph, "Concat", {"rows", "four"}, "shape");
        }) == Shape{6, 4});
  CHECK(reshaped([](auto& graph) { add_integers(graph, "shape", {-1, 2}); }) == Shape{12, 2});
  CHECK(reshaped([](auto& graph) { add_integers(graph, "shape", {18, 4}); }, 3) == Shape{6, 4});
  CHECK(reshaped(
            [](auto& graph) {
              add_integers(graph, "shape", {3, -1});
            },
            3) == Shape{1, 24});
  // expand: where(shape == -1, 1, shape)
  CHECK(reshaped([](auto& graph) {
          add_integers(graph, "ones", {1, 1, 1});
          add_integers(graph, "minus", {-1});
          add_node(graph, "Equal", {"all", "minus"}, "open");
          add_node(graph, "Where", {"open", "ones", "all"}, "shape");
        }) == Shape{1, 6, 4});
}

TEST_CASE("onnx: rows of a sample that are joined with the batch stay together") {
  refused("m.onnx: node 'the Reshape' (Reshape): reshaping to [8, 3] would mix samples",
          {0, 6, 4}, [](auto& graph, auto&) {
            add_integers(graph, "shape", {8, 3});
            add_node(graph, "Reshape", {"x", "shape"});
          });
  refused(
      "m.onnx: node 'the Reshape' (Reshape): 24 elements of a sample do not fit [5 batch, 4]",
      {0, 6, 4}, [](auto& graph, auto&) {
        add_node(graph, "Shape", {"x"}, "all");
        add_integers(graph, "zero", {0});
        add_integers(graph, "five", {5});
        add_integers(graph, "four", {4});
        add_node(graph, "Gather", {"all", "zero"}, "first");
        add_node(graph, "Mul", {"first", "five"}, "rows");
        add_node(graph, "Concat", {"rows", "four"}, "shape");
        add_node(graph, "Reshape", {"x", "shape"});
      });
  refused("m.onnx: node 'the Add' (Add): inputs have 1 and 6 rows for each sample", {0, 6, 4},
          [](auto& graph, auto&) {
            add_integers(graph, "shape", {-1, 4});
            add_integers(graph, "flat", {0, -1});
            add_node(graph, "Reshape", {"x", "flat"}, "a");
            add_node(graph, "Reshape", {"x", "shape"}, "b");
            add_node(graph, "Add", {"a", "b"});
          });
}

TEST_CASE("onnx: constants are computed with broadcasting") {
  const auto weights = [](const auto& build) {
    return parse_onnx(model_of({1, 2},
                               [&](auto& graph, auto&) {
                                 add_floats(graph, "a", {2, 2}, {1, 4, 9, 16});
                                 add_floats(graph, "b", {2}, {1, 2});
                                 build(graph);
                                 add_node(graph, "MatMul", {"x", "w"});
                               }),
                      "m")
        .parameters.get("w");
  };
  const auto matrix = [](std::vector<float> columns) {
    return Tensor::of<float>({2, 2}, columns);
  };
  CHECK(weights([](auto& graph) {
          add_node(graph, "Div", {"a", "b"}, "w");
        }) == matrix({1, 9, 2, 8}));
  CHECK(weights([](auto& graph) { add_node(graph, "Sqrt", {"a"}, "w"); }) ==
        matrix({1, 3, 2, 4}));
  CHECK(weights([](auto& graph) {
          add_node(graph, "Expand", {"b", "s"}, "w");
          add_integers(graph, "s", {2, 2});
          graph.mutable_node()->SwapElements(0, 1);
        }) == matrix({1, 1, 2, 2}));
  CHECK(weights([](auto& graph) {
          auto& sum = add_node(graph, "ReduceL2", {"a"}, "n");
          set_integers(sum, "axes", {1});
          add_node(graph, "Mul", {"n", "n"}, "m");
          add_node(graph, "Sub", {"a", "a"}, "z");
          add_node(graph, "Max", {"z", "b"}, "w");
        }) == matrix({1, 1, 2, 2}));
}

TEST_CASE("onnx: constants of the batch extent repeat for each sample") {
  const SavedModel model =
      parse_onnx(model_of({0, 4},
                          [](auto& graph, auto&) {
                            add_node(graph, "Shape", {"x"}, "shape");
                            add_node(graph, "ConstantOfShape", {"shape"}, "z");
                            add_node(graph, "Add", {"x", "z"});
                          }),
                 "m");
  CHECK(model.graph[model.graph.outputs()[0]].type.shape == Shape{1, 4});
  refused("m.onnx: node 'the MatMul' (MatMul): input 1, 'z', depends on the number of samples",
          {0, 4}, [](auto& graph, auto&) {
            add_node(graph, "Shape", {"x"}, "shape");
            add_node(graph, "ConstantOfShape", {"shape"}, "z");
            add_node(graph, "MatMul", {"x", "z"});
          });
}
