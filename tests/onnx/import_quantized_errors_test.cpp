// Quantized ONNX models that are not read, each with its reason.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "qtape/tests/onnx/quantized_models.h"

using namespace qtape;
using namespace qtape::test::onnx_models;

namespace {

/// Returns the error of a QuantizeLinear of x [batch, 2] by scales and zero points.
std::string of_quantizer(const Extents& shape, const Numbers& scales,
                         const Extents& zero_points, int32_t type = u8) {
  OnnxModel model({-1, 2}, 21);
  model.floats("s", shape, scales).codes("z", shape, zero_points, type).rounded("x", "s", "z");
  return error_of(model);
}

struct Weights {
  Extents shape = {2, 2};
  int32_t type = s8;
  Extents scales = {2};
  int32_t zero_type = s8;
  int64_t axis = 1;
  int64_t block = 0;
};

/// Returns the error of a MatMul of x [batch, 2] by such weights.
std::string of_weights(const Weights& weights) {
  const auto zeros = [](const Extents& shape) {
    return Extents(static_cast<size_t>(Shape(shape).elements()));
  };
  OnnxModel model({-1, 2}, 21);
  model
      .node("DequantizeLinear",
            {codes(weights.shape, zeros(weights.shape), weights.type),
             floats(weights.scales, Numbers(zeros(weights.scales).size(), 1)),
             codes(weights.scales, zeros(weights.scales), weights.zero_type)},
            {"b"})
      .with("axis", weights.axis)
      .with("block_size", weights.block)
      .node("MatMul", {"x", "b"});
  return error_of(model);
}

constexpr const char* in_quantize = "m.onnx: node 'the QuantizeLinear' (QuantizeLinear): ";
constexpr const char* in_dequantize =
    "m.onnx: node 'the DequantizeLinear' (DequantizeLinear): ";

}  // namespace

TEST_CASE("onnx quantized: scales are finite, positive and constant, one for values") {
  const std::string positive =
      std::string(in_quantize) + "scales must be finite and above 0, got ";
  CHECK(of_quantizer({}, {0}, {0}) == positive + "0");
  CHECK(of_quantizer({}, {-0.5f}, {0}) == positive + "-0.5");
  CHECK(of_quantizer({}, {std::numeric_limits<float>::infinity()}, {0}) == positive + "inf");
  CHECK(of_quantizer({}, {std::nanf("")}, {0}) == positive + "nan");
  CHECK(of_quantizer({2}, {1, 2}, {0, 0}) ==
        std::string(in_quantize) +
            "expected one scale for values that are not constant, got 2");
  CHECK(of_quantizer({}, {1}, {0}, s32) ==
        std::string(in_quantize) + "codes of int32 are not supported for values");
  CHECK(of_quantizer({}, {1}, {0}, onnx::TensorProto::INT64) ==
        std::string(in_quantize) + "codes of type 7 are not supported: use int8 or uint8");
  OnnxModel open({-1, 2});
  open.node("Abs", {"x"}, {"s"})
      .node("QuantizeLinear", {"x", "s"}, {"q"})
      .node("DequantizeLinear", {"q", "s"});
  CHECK(error_of(open) == std::string(in_quantize) + "input 1, 's', must be a constant");
  OnnxModel computed({-1, 2});
  computed.floats("s", {1}, {1})
      .integers("thousand", {1000})
      .node("Add", {"thousand", "thousand"}, {"z"})
      .rounded("x", "s", "z");
  CHECK(error_of(computed) ==
        std::string(in_quantize) + "the type of the zero point is not known");
}

TEST_CASE("onnx quantized: zero points, axes and blocks fit the codes") {
  const std::string text(in_dequantize);
  CHECK(of_weights({.zero_type = u8}) ==
        text + "the zero point is of uint8, expected int8 as the codes");
  CHECK(of_weights({.type = onnx_int4}) ==
        text + "the zero point is of int8, expected int4 as the codes");
  CHECK(of_weights({.axis = 2}) == text + "axis 2 is out of range for [2, 2]");
  CHECK(of_weights({.axis = -3}) == text + "axis -3 is out of range for [2, 2]");
  CHECK(of_weights({.scales = {3}}) ==
        text + "3 scales do not fit axis 1 of [2, 2]: expected 2");
  CHECK(of_weights({.scales = {1, 2}}) ==
        text + "input 1 must be one scale or a list of scales, got [1, 2]");
  CHECK(
      of_weights({.axis = 0}) ==
      "m.onnx: node 'the MatMul' (MatMul): 'b' has scales along axis 0, expected one for each "
      "output channel");
  CHECK(of_weights({.block = -1}) == text + "block_size must be above 0, got -1");
  CHECK(of_weights({.scales = {1, 2}, .axis = 0, .block = 3}) ==
        text + "blocks of 3 do not divide axis 0 of [2, 2]");
  CHECK(of_weights({.scales = {2, 2}, .axis = 0, .block = 2}) ==
        text + "scales [2, 2] do not fit blocks of 2 along axis 0 of [2, 2]: expected [1, 2]");
}

TEST_CASE("onnx quantized: codes are only read by the quantizer that wrote them") {
  OnnxModel floats({-1, 2});
  add_constants(floats).node("DequantizeLinear", {"x", "xs", "xz"});
  CHECK(error_of(floats) ==
        std::string(in_dequantize) + "input 0 has no codes of a QuantizeLinear");
  OnnxModel other({-1, 2});
  add_constants(other)
      .node("QuantizeLinear", {"x", "xs", "xz"}, {"q"})
      .node("DequantizeLinear", {"q", "ys", "yz"});
  CHECK(error_of(other) ==
        std::string(in_dequantize) +
            "it reads uint8 of scale 0.5, zero point 10 as uint8 of scale 1, "
            "zero point 128");
  OnnxModel sums({-1, 2});
  add_constants(sums).node("QuantizeLinear", {"x", "xs", "xz"}, {"q"}).node("Relu", {"q"});
  refused(sums,
          "node 'the Relu' (Relu): input 0, 'q', holds codes of a QuantizeLinear: expected "
          "a DequantizeLinear before this node");
  OnnxModel cast({-1, 2});
  add_constants(cast)
      .node("QuantizeLinear", {"x", "xs", "xz"}, {"q"})
      .node("Cast", {"q"})
      .with("to", s8);
  refused(cast,
          "node 'the Cast' (Cast): input 0, 'q', holds codes of a QuantizeLinear: "
          "expected a DequantizeLinear before this node");
  OnnxModel integers({-1, 2});
  add_constants(integers)
      .node("QuantizeLinear", {"x", "xs", "xz"}, {"q"})
      .node("MatMulInteger", {"q", "fc.weight_quantized", "xz"});
  refused(integers,
          "node 'the MatMulInteger' (MatMulInteger): the operator is not supported: read "
          "codes of a QuantizeLinear, and turn sums into floats by Cast and Mul with constant "
          "scales");
}
