// Operators that keep the shape of their input, or compute each row by itself.
#include <algorithm>

#include "qtape/onnx/import/operators.h"

namespace qtape {
namespace {

/// Operators of the last axis alone, if their constants are.
constexpr std::string_view of_last_axis[] = {"MatMul", "Add", "Sub",
                                             "Mul",    "Div", "LayerNormalization"};

}  // namespace

bool onnx_keeps_shape(std::string_view type) {
  constexpr std::string_view types[] = {"CumSum",
                                        "Hardmax",
                                        "IsNaN",
                                        "LRN",
                                        "PRelu",
                                        "Softmax",
                                        "Tan",
                                        "LogSoftmax",
                                        "BatchNormalization",
                                        "InstanceNormalization",
                                        "GroupNormalization",
                                        "LayerNormalization",
                                        "LpNormalization",
                                        "MeanVarianceNormalization",
                                        "RMSNormalization",
                                        "QuantizeLinear",
                                        "DequantizeLinear"};
  return onnx_is_of_elements(type) || std::ranges::find(types, type) != std::end(types);
}

bool onnx_is_of_last_axis(std::string_view type) {
  return type == "Gemm" || std::ranges::find(of_last_axis, type) != std::end(of_last_axis);
}

bool onnx_is_of_last_axis(const OnnxConstant& constant, std::string_view type) {
  if (type == "Gemm") return true;
  if (type == "MatMul") return constant.shape.rank() == 2;
  for (int k = 0; k + 1 < constant.shape.rank(); ++k) {
    if (constant.shape[k] != 1) return false;
  }
  return true;
}

}  // namespace qtape
