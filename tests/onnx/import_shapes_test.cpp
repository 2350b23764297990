// Numbers that ONNX models compute from shapes.
#include "qtape/onnx/import/batch_numbers.h"
#include "qtape/tests/onnx/onnx_model.h"

using namespace qtape;
using namespace qtape::test::onnx_models;

namespace {

/// Returns a model with input x [batch, 6, 4] and the extents `all` of x.
OnnxModel shaped(int64_t batch = 0) {
  return OnnxModel({batch, 6, 4}).node("Shape", {"x"}, {"all"});
}

/// Adds a Reshape of x to `shape`; returns the shape of the output.
Shape reshaped(OnnxModel model, const OnnxInput& shape) {
  return answer_shape(model.node("Reshape", {"x", shape}).imported());
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
  struct Row {
    const char* op;
    int64_t a, b;
    const char* text;
  };
  const Row rows[] = {
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
  for (const Row& row : rows) {
    const std::string got =
        test::error_text<FormatError>([&] { (void)folded(row.op, row.a, row.b); });
    CHECK(got == row.text);
  }
}

TEST_CASE("onnx: shapes are computed as exporters write them") {
  // x.view(x.size(0), 2, x.size(1) // 2, -1)
  CHECK(reshaped(shaped()
                     .node("Gather", {"all", ints({0})}, {"e0"})
                     .node("Gather", {"all", ints({1})}, {"e1"})
                     .node("Div", {"e1", ints({2})}, {"half"})
                     .node("Concat", {"e0", ints({2}), "half", ints({-1})}, {"shape"}),
                 "shape") == Shape{1, 2, 3, 4});
  // x.flatten(0, 1) and back
  CHECK(reshaped(shaped()
                     .node("Slice", {"all", ints({0}), ints({1})}, {"first"})
                     .node("Mul", {"first", ints({6})}, {"rows"})
                     .node("Concat", {"rows", ints({4})}, {"shape"}),
                 "shape") == Shape{6, 4});
  CHECK(reshaped(shaped(), ints({-1, 2})) == Shape{12, 2});
  CHECK(reshaped(shaped(3), ints({18, 4})) == Shape{6, 4});
  CHECK(reshaped(shaped(3), ints({3, -1})) == Shape{1, 24});
  // expand: where(shape == -1, 1, shape)
  CHECK(reshaped(shaped()
                     .node("Equal", {"all", ints({-1})}, {"open"})
                     .node("Where", {"open", ints({1, 1, 1}), "all"}, {"shape"}),
                 "shape") == Shape{1, 6, 4});
}

TEST_CASE("onnx: rows of a sample that are joined with the batch stay together") {
  refused(OnnxModel({0, 6, 4}).node("Reshape", {"x", ints({8, 3})}),
          "node 'the Reshape' (Reshape): reshaping to [8, 3] would mix samples");
  refused(shaped()
              .node("Gather", {"all", ints({0})}, {"first"})
              .node("Mul", {"first", ints({5})}, {"rows"})
              .node("Concat", {"rows", ints({4})}, {"shape"})
              .node("Reshape", {"x", "shape"}),
          "node 'the Reshape' (Reshape): 24 elements of a sample do not fit [5 batch, 4]");
  refused(OnnxModel({0, 6, 4})
              .node("Reshape", {"x", ints({0, -1})}, {"a"})
              .node("Reshape", {"x", ints({-1, 4})}, {"b"})
              .node("Add", {"a", "b"}),
          "node 'the Add' (Add): inputs have 1 and 6 rows for each sample");
}

TEST_CASE("onnx: constants are computed with broadcasting") {
  const OnnxModel given =
      OnnxModel({1, 2}).floats("a", {2, 2}, {1, 4, 9, 16}).floats("b", {2}, {1, 2});
  const auto weights = [](OnnxModel model) {
    return model.node("MatMul", {"x", "w"}).imported().parameters.get("w");
  };
  const auto matrix = [](const Numbers& columns) { return Tensor::of<float>({2, 2}, columns); };
  CHECK(weights(OnnxModel(given).node("Div", {"a", "b"}, {"w"})) == matrix({1, 9, 2, 8}));
  CHECK(weights(OnnxModel(given).node("Sqrt", {"a"}, {"w"})) == matrix({1, 3, 2, 4}));
  CHECK(weights(OnnxModel(given).node("Expand", {"b", ints({2, 2})}, {"w"})) ==
        matrix({1, 1, 2, 2}));
  CHECK(weights(OnnxModel(given)
                    .node("ReduceL2", {"a"}, {"n"})
                    .with("axes", Extents{1})
                    .node("Mul", {"n", "n"}, {"m"})
                    .node("Sub", {"a", "a"}, {"z"})
                    .node("Max", {"z", "b"}, {"w"})) == matrix({1, 1, 2, 2}));
}

TEST_CASE("onnx: constants of the batch extent repeat for each sample") {
  const OnnxModel zeros = OnnxModel({0, 4})
                              .node("Shape", {"x"}, {"shape"})
                              .node("ConstantOfShape", {"shape"}, {"z"});
  CHECK(answer_shape(OnnxModel(zeros).node("Add", {"x", "z"})) == Shape{1, 4});
  refused(OnnxModel(zeros).node("MatMul", {"x", "z"}),
          "node 'the MatMul' (MatMul): input 1, 'z', depends on the number of samples");
}
