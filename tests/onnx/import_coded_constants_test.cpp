// Quantized constants of ONNX models that pass through other nodes, and the notes about them.
#include <doctest/doctest.h>

#include "qtape/tests/onnx/quantized_models.h"

using namespace qtape;
using namespace qtape::test::onnx_models;

namespace {

using Notes = std::vector<std::string>;

Notes notes_of(const OnnxModel& model) {
  Notes notes;
  (void)parse_onnx(model.bytes(), "m.onnx", &notes, {});
  return notes;
}

/// A model x [batch, 2] whose constants are those of add_constants, and floats w [2, 2].
OnnxModel started() {
  OnnxModel model({-1, 2});
  add_constants(model).floats("w", {2, 2}, {0.9f, 0.6f, -0.4f, 1.1f});
  return model;
}

}  // namespace

TEST_CASE("onnx quantized: weights are rounded before and after a Transpose") {
  // Columns of w are rounded to multiples of 0.25 and 0.5.
  for (const bool codes : {false, true}) {
    CAPTURE(codes);
    OnnxModel model = started();
    model.node("QuantizeLinear", {"w", "ws", "wz"}, {"c"}).with("axis", 1);
    if (codes) {
      model.node("Transpose", {"c"}, {"t"}).dequantized({"t", "ws", "wz"}, "v", 0);
    } else {
      model.dequantized({"c", "ws", "wz"}, "u", 1).node("Transpose", {"u"}, {"v"});
    }
    model.node("Gemm", {"x", "v"}).with("transB", 1);
    const OnnxModel imported = model;
    CHECK(answer<float>(imported, {1, 0, 0, 1}, 2) == Numbers{1, 0.5f, -0.5f, 1});
    CHECK(notes_of(model).empty());
  }
}

TEST_CASE("onnx quantized: a reshaped constant keeps its scales where they have an axis") {
  const auto reshaped = [](const Extents& shape) {
    OnnxModel model({-1, 2, 1, 1});
    add_constants(model)
        .node("QuantizeLinear", {floats({2, 2}, {0.9f, 0.6f, -0.4f, 1.1f}), "ws", "wz"}, {"c"})
        .with("axis", 0)
        .dequantized({"c", "ws", "wz"}, "u", 0)
        .node("Reshape", {"u", ints(shape)}, {"v"})
        .node("Conv", {"x", "v"});
    return model;
  };
  CHECK(answer<float>(reshaped({2, 2, 1, 1}), {1, 0, 0, 1}, 2) == Numbers{1, -0.5f, 0.5f, 1});
  refused(reshaped({1, 4, 1, 1}),
          "node 'the Reshape' (Reshape): a constant with scales along axis 0 of [2, 2] "
          "cannot become [1, 4, 1, 1]");
}

TEST_CASE("onnx quantized: a quantized number has the value of its code") {
  OnnxModel model = started();
  model.node("QuantizeLinear", {number(1.3f), "xs", "xz"}, {"c"})
      .node("DequantizeLinear", {"c", "xs", "xz"}, {"n"})
      .node("Mul", {"x", "n"});
  CHECK(answer<float>(model, {1, 2}, 1) == Numbers{1.5f, 3});
}

TEST_CASE("onnx quantized: constants whose codes are not kept are rounded, with a note") {
  OnnxModel stored = started();
  stored.dequantized({"fc.weight_quantized", "ws", "wz"}, "v", 0)
      .floats("two", {}, {2})
      .node("Mul", {"v", "two"}, {"d"})
      .node("MatMul", {"x", "d"});
  CHECK(notes_of(stored) ==
        Notes{"'v' becomes floats: a node that reads it has no quantizer for it"});
  CHECK(answer<float>(stored, {1, 0, 0, 1}, 2) == Numbers{2, -4, 6, 2});
  OnnxModel rounded = started();
  rounded.floats("two", {}, {2})
      .rounded("w", "xs", "xz", "v")
      .node("Mul", {"v", "two"}, {"d"})
      .node("MatMul", {"x", "d"});
  CHECK(notes_of(rounded) ==
        Notes{"'v' becomes floats: a node that reads it has no quantizer for it"});
  CHECK(answer<float>(rounded, {1, 0, 0, 1}, 2) == Numbers{2, 1, -1, 2});
}

TEST_CASE("onnx quantized: an output of codes becomes floats, with a note") {
  OnnxModel model = started();
  model.node("QuantizeLinear", {"x", "xs", "xz"});
  CHECK(notes_of(model) == Notes{"output 'y' becomes the floats that its codes represent"});
  CHECK(answer<float>(model, {1.2f, 2}, 1) == Numbers{1, 2});
}

TEST_CASE("onnx quantized: alpha of quantized weights is 1") {
  OnnxModel model = started();
  model.dequantized({"fc.weight_quantized", "ws", "wz"}, "v", 1)
      .node("Gemm", {"x", "v"})
      .with("alpha", 0.5f);
  refused(model,
          "node 'the Gemm' (Gemm): alpha 0.5 and beta 1 with quantized weights are not "
          "supported, expected 1 and 1");
}

TEST_CASE("onnx quantized: scales of a matrix for all samples lie along its columns") {
  OnnxModel model({-1, 2, 2});
  add_constants(model)
      .codes("m", {1, 2, 2}, {4, 6, -8, 2}, s8)
      .dequantized({"m", "ws", "wz"}, "v", 2)
      .node("MatMul", {"x", "v"});
  CHECK(answer<float>(model, {1, 0, 0, 1}, 1) == Numbers{1, 3, -2, 1});
  OnnxModel rows({-1, 2, 2});
  add_constants(rows)
      .codes("m", {1, 2, 2}, {4, 6, -8, 2}, s8)
      .node("DequantizeLinear", {"m", "ws", "wz"}, {"v"})
      .node("MatMul", {"x", "v"});
  refused(rows,
          "node 'the MatMul' (MatMul): 'v' has scales along axis 1, expected one for each "
          "output channel");
}

TEST_CASE("onnx quantized: two layers share a bias, which is rounded for each") {
  OnnxModel model = started();
  model.floats("shared", {2}, {0.3f, -1})
      .rounded("x", "xs", "xz", "a")
      .dequantized({"fc.weight_quantized", "ws", "wz"}, "v", 0)
      .node("Gemm", {"a", "v", "shared"}, {"b"})
      .with("transB", 1)
      .rounded("b", "ys", "yz", "c")
      .node("Gemm", {"c", "v", "shared"})
      .with("transB", 1);
  // 0.3 becomes 0.25 in units of 1/8, and 0.25 in units of 1/4.
  CHECK(notes_of(model) ==
        Notes{"'shared': 1 of 2 biases are rounded to multiples of the scale of their sums",
              "'shared': 1 of 2 biases are rounded to multiples of the scale of their sums"});
  CHECK(answer<float>(model, {0, 0}, 1) == Numbers{2.25f, -2});
}

TEST_CASE("onnx quantized: a border beyond the codes of a Pad is rounded after it") {
  OnnxModel model({-1, 1, 1, 1});
  add_constants(model)
      .rounded("x", "xs", "xz", "a")
      .node("Pad", {"a", ints({0, 0, 0, 0, 0, 0, 0, 1}), number(0.3f)}, {"p"})
      .rounded("p", "xs", "xz");
  CHECK(answer<float>(model, {1}, 1) == Numbers{1, 0.5f});
}

TEST_CASE("onnx quantized: computed codes have a type and its range") {
  OnnxModel model = started();
  model.floats("one", {}, {1})
      .node("DequantizeLinear", {ints({1, 300}), "one", "xz"}, {"v"})
      .node("Add", {"x", "v"});
  CHECK(error_of(model).find("expected") != std::string::npos);
  OnnxModel sliced = started();
  sliced.integers("first", {0})
      .floats("one", {1}, {1})
      .node("Gather", {codes({2}, {-3, 7}, s8), "first"}, {"z"})
      .node("Gather", {codes({2, 2}, {-100, 3, 4, 5}, s8), "first"}, {"t"})
      .node("DequantizeLinear", {"t", "one", "z"}, {"v"})
      .node("Add", {"x", "v"});
  CHECK(answer<float>(sliced, {0, 0}, 1) == Numbers{-97, 6});
}
