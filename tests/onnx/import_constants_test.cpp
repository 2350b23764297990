// Constants where operators expect values: operands of Concat, initial states; Squeeze without
// axes; rows that join steps with samples.
#include <doctest/doctest.h>

#include "qtape/tests/onnx/onnx_model.h"

using namespace qtape;
using namespace qtape::test::onnx_models;

namespace {

Numbers counted(int64_t count) {
  Numbers all;
  for (int64_t k = 1; k <= count; ++k) all.push_back(static_cast<float>(k));
  return all;
}

}  // namespace

TEST_CASE("onnx: constants of a Concat stand in their places, for every sample") {
  const OnnxModel ends = OnnxModel({-1, 2})
                             .floats("a", {1, 1}, {7})
                             .node("Concat", {"a", "x", floats({1, 2}, {8, 9}), "x", "a", "a"})
                             .with("axis", 1);
  CHECK(answer(ends, Numbers{1, 2, 3, 4}, 2) ==
        Numbers{7, 1, 2, 8, 9, 1, 2, 7, 7, 7, 3, 4, 8, 9, 3, 4, 7, 7});
  const SavedModel image = OnnxModel({-1, 1, 2, 2})
                               .node("Concat", {"x", floats({1, 1, 2, 2}, {5, 6, 7, 8})}, {"c"})
                               .with("axis", 1)
                               .node("Flatten", {"c"})
                               .imported();
  CHECK(answer(image, Numbers{1, 2, 3, 4}, 1) == Numbers{1, 2, 3, 4, 5, 6, 7, 8});
  const SavedModel zeros = OnnxModel({-1, 3})
                               .node("Concat", {floats({1, 2}, {0, 0}), "x"})
                               .with("axis", -1)
                               .imported();
  CHECK(answer(zeros, Numbers{1, 2, 3}, 1) == Numbers{0, 0, 1, 2, 3});
  CHECK(zeros.graph.size() == 3);  // a Pad alone, and the name of the output
}

TEST_CASE("onnx: masks that are triangles of constants") {
  const auto cut = [](bool upper, int64_t k) {
    const OnnxModel model =
        OnnxModel({-1, 3, 4})
            .node("Trilu", {floats({3, 4}, Numbers(12, 1)), ints({k})}, {"mask"})
            .with("upper", upper)
            .node("Mul", {"x", "mask"});
    return answer(model, counted(12), 1);
  };
  CHECK(cut(true, 0) == Numbers{1, 2, 3, 4, 0, 6, 7, 8, 0, 0, 11, 12});
  CHECK(cut(true, 2) == Numbers{0, 0, 3, 4, 0, 0, 0, 8, 0, 0, 0, 0});
  CHECK(cut(false, -1) == Numbers{0, 0, 0, 0, 5, 0, 0, 0, 9, 10, 0, 0});
  CHECK(cut(false, 99) == counted(12));
}

TEST_CASE("onnx: elements of constants by several indices") {
  const auto selected = [](const Extents& extents, const std::vector<int64_t>& indices,
                           const Extents& shape) {
    return answer(OnnxModel({-1, 4})
                      .node("GatherND",
                            {floats({2, 3, 2}, counted(12)),
                             codes(extents, indices, onnx::TensorProto::INT64)},
                            {"table"})
                      .node("Reshape", {"table", ints(shape)}, {"row"})
                      .node("Add", {"x", "row"}),
                  Numbers(4, 0), 1);
  };
  CHECK(selected({2, 2}, {0, 2, 1, -1}, {1, 4}) == Numbers{5, 6, 11, 12});
  CHECK(selected({4, 3}, {0, 0, 1, 1, 2, 0, 1, 0, 1, 0, 1, 1}, {1, 4}) == Numbers{2, 11, 8, 4});
  const auto refused = [](const Extents& extents, const std::vector<int64_t>& indices) {
    return error_of(OnnxModel({-1, 4})
                        .node("GatherND",
                              {floats({2, 2}, counted(4)),
                               codes(extents, indices, onnx::TensorProto::INT64)},
                              {"row"})
                        .node("Add", {"x", "row"}));
  };
  const std::string place = "m.onnx: node 'the GatherND' (GatherND): ";
  CHECK(refused({1, 2}, {0, 2}).starts_with(place + "index 2 is out of range for 2"));
  CHECK(refused({1, 3}, {0, 1, 1})
            .starts_with(place + "indices of [1, 3] select axes of [2, 2]"));
}

TEST_CASE("onnx: constants with equal rows for a fixed batch count as one row") {
  const auto sum = [](const Numbers& rows) {
    return OnnxModel({2, 2}).node("Add", {"x", floats({2, 2}, rows)});
  };
  CHECK(answer(sum({5, 6, 5, 6}).imported(), Numbers{1, 2, 3, 4, 5, 6}, 3) ==
        Numbers{6, 8, 8, 10, 10, 12});
  CHECK(error_of(sum({5, 6, 5, 7})) ==
        "m.onnx: node 'the Add' (Add): 'c0' of [2, 2] does not broadcast to [1, 2]");
  const SavedModel joined = OnnxModel({2, 1})
                                .node("Concat", {"x", floats({2, 2}, {5, 6, 5, 6})})
                                .with("axis", 1)
                                .imported();
  CHECK(answer(joined, Numbers{1, 2, 3}, 3) == Numbers{1, 5, 6, 2, 5, 6, 3, 5, 6});
}

TEST_CASE("onnx: constants of a Concat that do not fit are refused") {
  const auto refused = [](const Extents& extents, const Numbers& values, int64_t axis) {
    return error_of(OnnxModel({-1, 2, 3})
                        .node("Concat", {"x", floats(extents, values)})
                        .with("axis", axis));
  };
  const std::string place = "m.onnx: node 'the Concat' (Concat): ";
  CHECK(refused({1, 2, 2}, counted(4), 1) ==
        place + "input 1 is a constant of [1, 2, 2], which does not fit [1, 2, 3]");
  CHECK(refused({2, 2, 3}, counted(12), 1) ==
        place + "input 1 is a constant of [2, 2, 3], which does not fit [1, 2, 3]");
  CHECK(refused({2, 3}, counted(6), 1) ==
        place + "input 1 is a constant of [2, 3], which does not fit [1, 2, 3]");
  CHECK(refused({1, 2, 3}, counted(6), 0) == place + "axis 0 would join samples");
}

TEST_CASE("onnx: functions of constants, as an encoding of positions, are computed once") {
  const auto added = [](const char* type) {
    return answer(OnnxModel({-1, 3})
                      .node(type, {floats({3}, {-0.5f, 0, 2})}, {"e"})
                      .node("Add", {"x", "e"}),
                  Numbers{0, 0, 0}, 1);
  };
  check_close(added("Sin"), {std::sin(-0.5), 0, std::sin(2.0)});
  check_close(added("Cos"), {std::cos(-0.5), 1, std::cos(2.0)});
  check_close(added("Sign"), {-1, 0, 1});
}

TEST_CASE("onnx: products of an initial state are computed before any sample") {
  const OnnxModel model = OnnxModel({-1, 2})
                              .floats("h", {1, 2}, {1, -2})
                              .floats("w", {3, 2}, {1, 2, 3, 4, 5, 6})
                              .floats("b", {3}, {0.5f, 0, -0.5f})
                              .node("Gemm", {"h", "w", "b"}, {"s"})
                              .with("transB", 1)
                              .node("MatMul", {"s", floats({3, 2}, {1, 0, 0, 1, 1, 1})}, {"t"})
                              .node("Tanh", {"t"}, {"u"})
                              .node("Add", {"x", "u"});
  // h w^T + b = (-2.5, -5, -7.5); times v: (-10, -12.5).
  check_close(
      answer(model, Numbers{1, 2, 3, 4}, 2),
      {1 + std::tanh(-10.0), 2 + std::tanh(-12.5), 3 + std::tanh(-10.0), 4 + std::tanh(-12.5)});
  refused(
      OnnxModel({-1, 2})
          .floats("h", {1, 2}, {1, -2})
          .floats("w", {3, 2}, {1, 2, 3, 4, 5, 6})
          .node("MatMul", {"h", "w"}, {"s"})
          .node("Add", {"x", "s"}),
      "node 'the MatMul' (MatMul): constants of [1, 2] and [3, 2] cannot be multiplied, expected floats, a matrix on the right and equal inner extents");
  refused(OnnxModel({-1, 2})
              .floats("h", {1, 2}, {1, -2})
              .floats("w", {2, 2}, {1, 2, 3, 4})
              .floats("b", {3}, {1, 2, 3})
              .node("Gemm", {"h", "w", "b"}, {"s"})
              .node("Add", {"x", "s"}),
          "node 'the Gemm' (Gemm): input 2 of [3] does not broadcast to [1, 2]");
}

TEST_CASE("onnx: Squeeze without axes keeps the samples") {
  const SavedModel model =
      OnnxModel({-1, 1, 3, 1}).node("Squeeze", {"x"}, {"s"}).node("Relu", {"s"}).imported();
  CHECK(model.graph[model.graph.outputs()[0]].type.shape == Shape{1, 3});
  CHECK(answer(model, Numbers{1, -2, 3, 4, 5, -6}, 2) == Numbers{1, 0, 3, 4, 5, 0});
}

TEST_CASE("onnx: layers over the steps of all samples, the steps first") {
  const auto net = [](const Extents& join, const Extents& split, bool fixed) {
    return OnnxModel({fixed ? 1 : -1, 3, 2})
        .integers("join", join)
        .transposed("x", {1, 0, 2}, "s")
        .node("Reshape", {"s", "join"}, {"rows"})
        .node("Gemm", {"rows", floats({2, 2}, {1, 1, 0, 2}), floats({2}, {0.5f, -20})}, {"g"})
        .node("Relu", {"g"}, {"r"})
        .node("Reshape", {"r", ints(split)}, {"t"})
        .transposed("t", {1, 0, 2});
  };
  const Numbers x = counted(12);
  std::vector<double> expected;
  for (size_t row = 0; row < 6; ++row) {
    const double a = x[2 * row], b = x[2 * row + 1];
    expected.push_back(std::max(0.0, a + 0.5));
    expected.push_back(std::max(0.0, a + 2 * b - 20));
  }
  check_close(answer(net({-1, 2}, {3, -1, 2}, false), x, 2), expected);
  check_close(answer(net({3, 2}, {3, 1, 2}, true), x, 2), expected);
  CHECK(
      error_of(net({-1, 2}, {-1, 3, 2}, false))
          .find("node 'the Reshape' (Reshape): the rows of [3, 2] are 3 steps of all samples: "
                "reshaping them to [-1, 3, 2] would mix samples") != std::string::npos);
  OnnxModel rows({-1, 3, 2});
  rows.integers("join", {-1, 2}).transposed("x", {1, 0, 2}, "s").node("Reshape", {"s", "join"});
  refused(rows,
          "output 'y': its rows are the steps of all samples: reshape it to steps and "
          "samples");
  rows.graph().mutable_node(1)->set_output(0, "r");
  rows.node("ReduceSum", {"r"});
  refused(rows,
          "node 'the ReduceSum' (ReduceSum): its rows are the steps of all samples: only "
          "functions of each row are supported, and a reshape to steps and samples");
}

TEST_CASE("onnx: activations of constants, and products with vectors") {
  const auto folded = [](OnnxModel model) {
    return answer(model.node("Add", {"x", "s"}), Numbers{0, 0}, 1);
  };
  const auto two = [](const char* op) {
    return OnnxModel({-1, 2}).node(op, {floats({2}, {-2, 3})}, {"s"});
  };
  CHECK(folded(two("LeakyRelu").with("alpha", 0.5f)) == Numbers{-1, 3});
  check_close(folded(two("HardSwish")), {-1.0 / 3, 3});
  check_close(folded(two("Erf")), {std::erf(-2.0), std::erf(3.0)});
  check_close(folded(two("Elu")), {std::expm1(-2.0), 3});
  check_close(folded(two("Softplus")), {std::log1p(std::exp(-2.0)), std::log1p(std::exp(3.0))});
  check_close(folded(two("Softmax")), {1 / (1 + std::exp(5.0)), 1 / (1 + std::exp(-5.0))});
  check_close(folded(two("LogSoftmax")),
              {-std::log1p(std::exp(5.0)), -std::log1p(std::exp(-5.0))});
  const auto product = [](const OnnxInput& a, const OnnxInput& b) {
    return OnnxModel({-1, 2}).node("MatMul", {a, b}, {"s"});
  };
  const auto matrix = floats({2, 2}, {1, 2, 3, 4}), vector = floats({2}, {1, 10});
  CHECK(folded(product(matrix, vector)) == Numbers{21, 43});
  CHECK(folded(product(vector, matrix)) == Numbers{31, 42});
  CHECK(folded(product(vector, vector)) == Numbers{101, 101});
  refused(OnnxModel({-1, 2})
              .floats("h", {2}, {1, 2})
              .node("Celu", {"h"}, {"s"})
              .node("Add", {"x", "s"}),
          "node 'the Celu' (Celu): input 0, 'h', is a constant, expected a value that depends "
          "on an input of the model: export the result of this node as a constant, such as a "
          "buffer of PyTorch");
}
