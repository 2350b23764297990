// Quantized ONNX models: their values, the graphs that they become, and their programs.
#include <doctest/doctest.h>

#include <algorithm>

#include "qtape/deploy/convert.h"
#include "qtape/deploy/lint.h"
#include "qtape/engine/quantizers.h"
#include "qtape/onnx/export.h"
#include "qtape/tests/onnx/quantized_models.h"

using namespace qtape;
using namespace qtape::test::onnx_models;

namespace {

/// Adds the values y of codes r.
OnnxModel& finish(OnnxModel& model) {
  return model.node("DequantizeLinear", {"r", "ys", "yz"});
}

Numbers answers(const OnnxModel& model, const Numbers& x = two_samples) {
  return answer<float>(model, x, 2);
}

/// Returns the codes q of x, and a node of com.microsoft that gives codes r.
OnnxModel with_operator(const char* type, const OnnxInputs& inputs) {
  OnnxModel model({-1, 2});
  add_constants(model);
  model.node("QuantizeLinear", {"x", "xs", "xz"}, {"q"}).node(type, inputs, {"r"});
  model.of_domain("com.microsoft");
  return model;
}

}  // namespace

TEST_CASE("onnx quantized: values, names and quantizers are those of the file") {
  const SavedModel model = quantized_gemm().imported();
  CHECK(answer<float>(model, two_samples, 2) == two_answers);
  CHECK(model.parameters.get("fc.weight") ==
        Tensor::of<float>({2, 2}, std::vector<float>{1, -2, 3, 1}));
  CHECK(model.parameters.get("fc.bias") == Tensor::of<float>({2}, std::vector<float>{1, -1}));
  CHECK(model.graph.find("fc"));
  CHECK(number_of<FakeQuantize>(model) == 3);
  CHECK(number_of<FakeQuantizeBias>(model) == 1);
  for (const Node& node : model.graph.nodes()) {
    const auto* op = std::get_if<FakeQuantize>(&node.op);
    if (op != nullptr) CHECK(std::holds_alternative<Fixed>(op->scale_mode));
  }
  for (const Finding& finding : lint(model.graph, model.parameters)) {
    CHECK(finding.severity != Severity::Error);
  }
}

TEST_CASE(
    "onnx quantized: QGemm and QLinearMatMul compute what the operators between "
    "quantizers do") {
  OnnxModel gemm = with_operator("QGemm", {"q", "xs", "xz", "fc.weight_quantized", "ws", "wz",
                                           "fc.bias_quantized", "ys", "yz"});
  gemm.with("transB", 1);
  CHECK(answers(finish(gemm)) == two_answers);
  CHECK(gemm.imported().graph.find("fc.weight"));

  OnnxModel matmul({-1, 2});
  add_constants(matmul)
      .node("QuantizeLinear", {"x", "xs", "xz"}, {"q"})
      .node("QLinearMatMul",
            {"q", "xs", "xz", codes({2, 2}, {4, 6, -8, 2}, s8), "ws", "wz", "ys", "yz"}, {"r"});
  CHECK(answers(finish(matmul)) == Numbers{5, 1, 2, 10});
}

TEST_CASE("onnx quantized: QLinearConv has scales of channels and a bias of sums") {
  OnnxModel model({-1, 1, 1, 2});
  add_constants(model)
      .codes("w_quantized", {2, 1, 1, 1}, {4, 6}, s8)
      .node("QuantizeLinear", {"x", "xs", "xz"}, {"q"})
      .node("QLinearConv",
            {"q", "xs", "xz", "w_quantized", "ws", "wz", "ys", "yz", "fc.bias_quantized"},
            {"r"});
  // Channels last: w = {1, 3}, bias {1, -1}; x = {1, -2, 3, 0.5}; ties to even.
  CHECK(answers(finish(model)) == Numbers{2, 2, -1, -7, 4, 8, 2, 0});
  CHECK(number_of<FakeQuantizeBias>(model) == 1);
}

TEST_CASE("onnx quantized: elementwise operators of codes are functions between quantizers") {
  OnnxModel sum = with_operator("QLinearAdd", {"q", "xs", "xz", "q", "xs", "xz", "ys", "yz"});
  CHECK(answers(finish(sum)) == Numbers{2, -4, 6, 1});
  OnnxModel leaky = with_operator("QLinearLeakyRelu", {"q", "xs", "xz", "ys", "yz"});
  leaky.with("alpha", 0.5f);
  CHECK(answers(finish(leaky)) == Numbers{1, -1, 3, 0});
  OnnxModel joined =
      with_operator("QLinearConcat", {"ys", "yz", "q", "xs", "xz", "q", "xs", "xz"});
  joined.with("axis", 1);
  CHECK(answers(finish(joined)) == Numbers{1, -2, 1, -2, 3, 0, 3, 0});
}

TEST_CASE("onnx quantized: sums of MatMulInteger become floats by constant scales") {
  const auto model = [](bool product) {
    OnnxModel result({-1, 2});
    add_constants(result)
        .node("QuantizeLinear", {"x", "xs", "xz"}, {"q"})
        .node("MatMulInteger", {"q", codes({2, 2}, {4, 6, -8, 2}, s8), "xz"}, {"sums"})
        .node("Cast", {"sums"}, {"floats"})
        .with("to", 1)
        .node("Mul", {"xs", "ws"}, {"both"})
        .floats("scales", {2}, {0.125f, 0.25f})
        .node("Mul", {product ? "both" : "scales", "floats"});
    return result;
  };
  for (const bool product : {false, true}) {
    CAPTURE(product);
    CHECK(answers(model(product)) == Numbers{5, 1, 2, 9.5f});
    CHECK(number_of<FakeQuantize>(model(product)) == 2);
  }
}

TEST_CASE("onnx quantized: weights of 4 bits, also with scales of blocks") {
  OnnxModel model({-1, 4}, 21);
  model.floats("xs", {}, {0.5f})
      .codes("xz", {}, {0}, s8)
      .rounded("x", "xs", "xz", "a")
      .node("DequantizeLinear",
            {codes({4, 2}, {1, -8, 2, 7, 3, -1, -4, 5}, onnx_int4),
             floats({2, 2}, {0.5f, 1, 2, 0.25f}), codes({2, 2}, {0, 1, -1, 0}, onnx_int4)},
            {"b"})
      .with("axis", 0)
      .with("block_size", 2)
      .node("MatMul", {"a", "b"});
  const SavedModel imported = model.imported();
  // Columns of b: {0.5, 1, 8, -6} and {-9, 6, -0.25, 1.25}.
  CHECK(answer<float>(imported, {1, 0, 0, 0, 1, 2, 3, 4}, 2) == Numbers{0.5f, -9, 2.5f, 7.25f});
  const auto weights = std::ranges::find_if(imported.graph.nodes(), [](const Node& node) {
    const auto* op = std::get_if<FakeQuantize>(&node.op);
    return op != nullptr && op->bits == 4;
  });
  REQUIRE(weights != imported.graph.nodes().end());
  CHECK(std::get<FakeQuantize>(weights->op).group_size == 2);
}

TEST_CASE("onnx quantized: nodes that move codes keep them, equal quantizers are one") {
  OnnxModel model({-1, 1, 2, 2});
  model.floats("xs", {}, {0.5f})
      .codes("xz", {}, {3}, u8)
      .node("QuantizeLinear", {"x", "xs", "xz"}, {"q"})
      .node("MaxPool", {"q"}, {"p"})
      .with("kernel_shape", Extents{2, 2})
      .node("Flatten", {"p"}, {"f"})
      .node("DequantizeLinear", {"f", "xs", "xz"}, {"a"})
      .rounded("a", "xs", "xz");
  const OnnxModel imported = model;
  CHECK(answer<float>(imported, {1, 2, 3, 4.3f, -9, -8, -7, -6}, 2) == Numbers{4.5f, -1.5f});
  CHECK(number_of<FakeQuantize>(imported) == 1);
}

/// A Gemm between quantizers as PyTorch exports a converted module: codes are cast to the type
/// that they have, and the zero point of the bias is a cast number.
static OnnxModel converted_module() {
  OnnxModel model({-1, 2});
  add_constants(model);
  model.node("QuantizeLinear", {"x", "xs", "xz"}, {"q"})
      .node("Cast", {"q"}, {"cast"})
      .with("to", u8)
      .node("DequantizeLinear", {"cast", "xs", "xz"}, {"a"})
      .dequantized({"fc.weight_quantized", "ws", "wz"}, "weight", 0)
      .node("ConstantOfShape", {ints({2})}, {"zeros"})
      .node("Cast", {"zeros"}, {"bz"})
      .with("to", s32)
      .dequantized({"fc.bias_quantized", "bs", "bz"}, "bias", 0)
      .node("Gemm", {"a", "weight", "bias"}, {"sum"})
      .with("transB", 1)
      .node("QuantizeLinear", {"sum", "ys", "yz"}, {"r"})
      .node("Cast", {"r"}, {"r2"})
      .with("to", u8)
      .node("DequantizeLinear", {"r2", "ys", "yz"});
  return model;
}

TEST_CASE("onnx quantized: casts of codes to their type change nothing") {
  const SavedModel imported = converted_module().imported();
  CHECK(answer<float>(imported, two_samples, 2) == two_answers);
  CHECK(number_of<FakeQuantize>(imported) == number_of<FakeQuantize>(quantized_gemm()));
}

TEST_CASE("onnx quantized: codes of one grid are joined") {
  const auto joined = [](const char* scale) {
    OnnxModel model({-1, 2});
    model.floats("xs", {}, {0.5f})
        .floats("ys", {}, {1})
        .codes("xz", {}, {3}, u8)
        .node("QuantizeLinear", {"x", "xs", "xz"}, {"q"})
        .node("Neg", {"x"}, {"n"})
        .node("QuantizeLinear", {"n", scale, "xz"}, {"r"})
        .node("Concat", {"q", "r"}, {"c"})
        .with("axis", 1)
        .node("DequantizeLinear", {"c", "xs", "xz"});
    return model;
  };
  CHECK(answer<float>(joined("xs"), {1, -7}, 1) == Numbers{1, -1.5f, -1, 7});
  CHECK(error_of(joined("ys")).find("it joins codes of different scales or zero points") !=
        std::string::npos);
}

TEST_CASE("onnx quantized: a program comes back from its own export with the same codes") {
  const SavedModel model = quantized_gemm().imported();
  const auto program = [](const SavedModel& of) {
    return convert(of.graph, of.parameters, Requantization::OnnxQdq);
  };
  const SavedModel back = parse_onnx(to_onnx(program(model), {OnnxForm::Qdq, 13}), "m.onnx");
  CHECK(answer<float>(back, two_samples, 2) == two_answers);
  const std::string bytes = to_onnx(program(back), {OnnxForm::Qdq, 13});
  CHECK(answer<float>(parse_onnx(bytes, "m.onnx"), two_samples, 2) == two_answers);
}

TEST_CASE("onnx quantized: activations that codes replace become nodes again") {
  // Codes from 0 on, up to 6 or further, and codes of both signs.
  struct Case {
    float scale;
    int64_t zero_point;
    int relus, clamps;
  };
  for (const auto& [scale, zero_point, relus, clamps] :
       {Case{0.125f, 0, 1, 0}, Case{6.f / 255, 0, 0, 1}, Case{1, 3, 0, 0}}) {
    OnnxModel model({-1, 2});
    add_constants(model)
        .floats("ps", {}, {scale})
        .codes("pz", {}, {zero_point}, u8)
        .rounded("x", "xs", "xz", "a")
        .dequantized({"fc.weight_quantized", "ws", "wz"}, "w", 0)
        .node("Gemm", {"a", "w"}, {"sum"})
        .with("transB", 1)
        .rounded("sum", "ps", "pz");
    std::vector<std::string> notes;
    const SavedModel imported = parse_onnx(model.bytes(), "m.onnx", &notes, {});
    const auto count = [&]<class X>() {
      return std::ranges::count_if(imported.graph.nodes(), [](const Node& node) {
        return std::holds_alternative<X>(node.op);
      });
    };
    CHECK(count.operator()<Relu>() == relus);
    CHECK(count.operator()<Clamp>() == clamps);
    CHECK(std::ranges::count_if(notes, [](const std::string& note) {
            return note.find("which become nodes: ") != std::string::npos;
          }) == relus + clamps);
  }
}

TEST_CASE("onnx quantized: inputs and values of codes from 0 on get no activation") {
  OnnxModel model({-1, 2});
  add_constants(model)
      .codes("pz", {}, {0}, u8)
      .node("Transpose", {"x"}, {"t"})
      .with("perm", std::vector<int64_t>{0, 1})
      .rounded("t", "xs", "pz", "a")
      .node("Add", {"a", "a"}, {"sum"})
      .rounded("sum", "ys", "pz");
  std::vector<std::string> notes;
  (void)parse_onnx(model.bytes(), "m.onnx", &notes, {});
  CHECK(notes.empty());
}

TEST_CASE("onnx quantized: norms read the floats of quantized factors") {
  OnnxModel model({-1, 2});
  add_constants(model)
      .codes("g", {2}, {4, 8}, s8)
      .codes("gz", {}, {0}, s8)
      .rounded("x", "xs", "xz", "a")
      .dequantized({"g", "xs", "gz"}, "n.weight", 0)
      .node("LayerNormalization", {"a", "n.weight"});
  std::vector<std::string> notes;
  const SavedModel imported = parse_onnx(model.bytes(), "m.onnx", &notes, {});
  CHECK(notes ==
        std::vector<std::string>{
            "'n.weight' becomes floats: a node that reads it has no quantizer for it"});
  const auto weight = imported.parameters.at("n.weight").values<float>();
  CHECK(std::ranges::equal(weight, std::vector<float>{2, 4}));
  CHECK(quantizers(imported.graph).size() == 1);
}
