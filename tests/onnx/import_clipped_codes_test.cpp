// Quantized ONNX models whose codes are clipped, padded and resized, and weights around a zero
// point.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "qtape/deploy/convert.h"
#include "qtape/tests/onnx/quantized_models.h"

using namespace qtape;
using namespace qtape::test::onnx_models;

namespace {

/// Returns a model of codes q of x, which `node` moves or clips to r. Scale 0.5, zero point 10.
template <class Adds>
OnnxModel of_codes(const Extents& extents, const Adds& adds) {
  OnnxModel model(extents);
  add_constants(model).node("QuantizeLinear", {"x", "xs", "xz"}, {"q"});
  adds(model);
  model.node("DequantizeLinear", {"r", "xs", "xz"});
  return model;
}

OnnxModel clipped(const Extents& limits, int32_t type = u8) {
  return of_codes({-1, 2}, [&](OnnxModel& model) {
    model.codes("low", {}, {limits[0]}, type).codes("high", {}, {limits[1]}, type);
    model.node("Clip", {"q", "low", "high"}, {"r"});
  });
}

std::vector<FakeQuantize> quantizers_of(const SavedModel& model) {
  std::vector<FakeQuantize> found;
  for (const Node& node : model.graph.nodes()) {
    if (const auto* op = std::get_if<FakeQuantize>(&node.op)) found.push_back(*op);
  }
  return found;
}

/// Returns the only quantizer of the model.
FakeQuantize quantizer_of(const SavedModel& model) {
  const auto found = quantizers_of(model);
  REQUIRE(found.size() == 1);
  return found[0];
}

}  // namespace

TEST_CASE("onnx codes: a Clip to the codes of fewer bits is a quantizer of these") {
  // Codes 210 and -5 + 10: above 127, and within.
  const OnnxModel model = clipped({0, 127});
  CHECK(answer<float>(model.imported(), Numbers{100, -2.5f}, 1) == Numbers{58.5f, -2.5f});
  const FakeQuantize op = quantizer_of(model.imported());
  CHECK(op.bits == 7);
  CHECK(op.range == CodeRange::Unsigned);
  const IntegerProgram program =
      convert(model.imported().graph, model.imported().parameters, {});
  CHECK(program.size() > 0);

  // All codes of the type: no change.
  CHECK(quantizer_of(clipped({0, 255}).imported()).bits == 8);

  OnnxModel narrow({-1, 2});
  narrow.floats("s", {}, {0.5f}).codes("z", {}, {0}, s8);
  narrow.codes("low", {}, {-127}, s8).codes("high", {}, {127}, s8);
  narrow.node("QuantizeLinear", {"x", "s", "z"}, {"q"})
      .node("Clip", {"q", "low", "high"}, {"r"})
      .node("DequantizeLinear", {"r", "s", "z"});
  CHECK(answer<float>(narrow.imported(), Numbers{-100, 100}, 1) == Numbers{-63.5f, 63.5f});
  CHECK(quantizer_of(narrow.imported()).range == CodeRange::Narrow);
}

TEST_CASE("onnx codes: a Clip to other limits limits the values") {
  // Codes 12 to 200 are the values 1 to 95.
  const SavedModel model = clipped({12, 200}).imported();
  CHECK(answer<float>(model, Numbers{100, -2.5f}, 1) == Numbers{95, 1});
  CHECK(answer<float>(model, Numbers{2.5f, 90}, 1) == Numbers{2.5f, 90});
  CHECK(quantizers_of(model).size() == 2);
  (void)convert(model.graph, model.parameters, {});
  // The upper limit wins where they cross.
  CHECK(answer<float>(clipped({50, 20}).imported(), Numbers{100, 0}, 1) == Numbers{5, 5});
}

TEST_CASE("onnx codes: codes clipped to different limits keep theirs when they are joined") {
  OnnxModel model({-1, 2});
  add_constants(model).codes("low", {}, {0}, u8).codes("high", {}, {127}, u8);
  model.node("QuantizeLinear", {"x", "xs", "xz"}, {"q"})
      .node("Clip", {"q", "low", "high"}, {"r"})
      .node("Concat", {"r", "q"}, {"both"})
      .with("axis", int64_t{1})
      .node("DequantizeLinear", {"both", "xs", "xz"});
  CHECK(answer<float>(model.imported(), Numbers{100, 0}, 1) == Numbers{58.5f, 0, 100, 0});
}

TEST_CASE("onnx codes: a Pad with a code is one with its value") {
  const auto padded = [](bool with_code) {
    return of_codes({-1, 2}, [&](OnnxModel& model) {
      model.integers("pads", {0, 1, 0, 0}).codes("code", {}, {12}, u8);
      model.node("Pad", with_code ? OnnxInputs{"q", "pads", "code"} : OnnxInputs{"q", "pads"},
                 {"r"});
    });
  };
  const SavedModel model = padded(true).imported();
  CHECK(answer<float>(model, Numbers{2, -3}, 1) == Numbers{1, 2, -3});
  (void)convert(model.graph, model.parameters, {});
  // Without a value, the code is 0.
  CHECK(answer<float>(padded(false).imported(), Numbers{2, -3}, 1) == Numbers{-5, 2, -3});
}

TEST_CASE("onnx codes: the nearest codes of a Resize are moved, others are computed") {
  const auto resized = [](const char* mode) {
    return of_codes({-1, 1, 1, 2}, [&](OnnxModel& model) {
      model.floats("sizes", {4}, {1, 1, 1, 2});
      model.node("Resize", {"q", "", "sizes"}, {"r"})
          .with("mode", mode)
          .with("coordinate_transformation_mode", "asymmetric")
          .with("nearest_mode", "floor");
    });
  };
  CHECK(answer<float>(resized("nearest").imported(), Numbers{1, -2}, 1) ==
        Numbers{1, 1, -2, -2});
  CHECK(error_of(resized("linear")) ==
        "m.onnx: node 'the Resize' (Resize): input 0, 'q', holds codes of a QuantizeLinear: "
        "expected a DequantizeLinear before this node");
}

TEST_CASE("onnx codes: weights are symmetric if their codes minus the zero point are") {
  const auto gemm = [](int64_t zero, const Extents& codes, int32_t type) {
    OnnxModel model({-1, 2});
    add_constants(model).codes("z", {}, {zero}, type).codes("w", {2, 2}, codes, type);
    model.floats("s", {}, {0.5f})
        .node("QuantizeLinear", {"x", "xs", "xz"}, {"q"})
        .node("DequantizeLinear", {"q", "xs", "xz"}, {"a"})
        .node("DequantizeLinear", {"w", "s", "z"}, {"b"})
        .node("MatMul", {"a", "b"}, {"sum"})
        .node("QuantizeLinear", {"sum", "ys", "yz"}, {"r"})
        .node("DequantizeLinear", {"r", "ys", "yz"});
    return model.imported();
  };
  const Numbers x = {1, -2}, wanted = {-1, 5};  // w = {1, -1; 1, -3}
  const auto schemes = [](const SavedModel& model) {
    return std::ranges::count(quantizers_of(model), Scheme::Affine, &FakeQuantize::scheme);
  };
  const SavedModel middle = gemm(128, {130, 126, 130, 122}, u8);
  CHECK(answer<float>(middle, x, 1) == wanted);
  CHECK(schemes(middle) == 2);  // of x and y
  (void)convert(middle.graph, middle.parameters, {});
  const SavedModel shifted = gemm(-7, {-5, -9, -5, -13}, s8);
  CHECK(answer<float>(shifted, x, 1) == wanted);
  CHECK(schemes(shifted) == 2);
  // 255 - 100 is no signed code.
  CHECK(schemes(gemm(100, {255, 98, 102, 94}, u8)) == 3);

  OnnxModel rounded({-1, 2});  // floats that a QuantizeLinear rounds
  add_constants(rounded).codes("z", {}, {128}, u8).floats("w", {2, 2}, {1, -1, 1.2f, -3});
  rounded.floats("s", {}, {0.5f})
      .node("QuantizeLinear", {"w", "s", "z"}, {"wq"})
      .node("DequantizeLinear", {"wq", "s", "z"}, {"b"})
      .node("MatMul", {"x", "b"});
  CHECK(answer<float>(rounded.imported(), x, 1) == wanted);
  CHECK(quantizer_of(rounded.imported()).scheme == Scheme::Symmetric);
}

TEST_CASE("onnx: Max and Min take arrays of numbers before and after a value") {
  const auto extreme = [](const char* type, const OnnxInputs& inputs) {
    OnnxModel model({-1, 2});
    model.floats("v", {2}, {1, -1}).floats("one", {}, {0.5f}).node(type, inputs);
    return answer<float>(model.imported(), Numbers{0, 2, 3, -4}, 2);
  };
  CHECK(extreme("Max", {"x", "v"}) == Numbers{1, 2, 3, -1});
  CHECK(extreme("Min", {"v", "x"}) == Numbers{0, -1, 1, -4});
  CHECK(extreme("Max", {"v", "one", "x"}) == Numbers{1, 2, 3, 0.5f});
}
