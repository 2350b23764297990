// Quantized ONNX models of tests.
#pragma once

#include "qtape/tests/onnx/onnx_model.h"

namespace qtape::test::onnx_models {

inline constexpr int32_t u8 = onnx::TensorProto::UINT8;
inline constexpr int32_t s8 = onnx::TensorProto::INT8;
inline constexpr int32_t s32 = onnx::TensorProto::INT32;

/// Scales and zero points of x, w, y and the bias. Weights [2, 2] in rows:
/// {1, -2; 3, 1}; bias {1, -1}.
inline OnnxModel& add_constants(OnnxModel& model) {
  return model.floats("xs", {}, {0.5f})
      .codes("xz", {}, {10}, u8)
      .floats("ys", {}, {1})
      .codes("yz", {}, {128}, u8)
      .floats("ws", {2}, {0.25f, 0.5f})
      .codes("wz", {2}, {0, 0}, s8)
      .codes("fc.weight_quantized", {2, 2}, {4, -8, 6, 2}, s8)
      .floats("bs", {2}, {0.125f, 0.25f})
      .codes("fc.bias_quantized", {2}, {8, -4}, s32);
}

/// A Gemm between quantizers, in the form QDQ of ONNX Runtime.
inline OnnxModel quantized_gemm() {
  OnnxModel model({-1, 2});
  add_constants(model);
  model.rounded("x", "xs", "xz", "a")
      .node("DequantizeLinear", {"fc.weight_quantized", "ws", "wz"},
            {"fc.weight_DequantizeLinear_Output"})
      .with("axis", 0)
      .dequantized({"fc.bias_quantized", "bs"}, "fc.bias", 0)
      .node("Gemm", {"a", "fc.weight_DequantizeLinear_Output", "fc.bias"}, {"sum"})
      .with("transB", 1)
      .rounded("sum", "ys", "yz");
  return model;
}

/// Samples of x, and the answers of quantized_gemm: the last value, 8.5, is a tie.
inline const Numbers two_samples = {1, -2, 3.2f, 0.3f};
inline const Numbers two_answers = {6, 0, 3, 8};

}  // namespace qtape::test::onnx_models
