// Operators that compute each element, or each row along the last axis, by itself.
#include <algorithm>

#include "qtape/onnx/import/operators.h"

namespace qtape {
namespace {

/// Operators of each element, or of the last axis alone.
constexpr std::string_view without_place[] = {
    "Relu",     "Sigmoid",   "Tanh",       "Exp",        "Log",  "Neg",       "Abs",
    "Sqrt",     "Erf",       "Mish",       "Softplus",   "Clip", "HardSwish", "Softsign",
    "Elu",      "LeakyRelu", "Reciprocal", "Selu",       "Celu", "Gelu",      "Pow",
    "Identity", "Cast",      "Dropout",    "HardSigmoid"};
constexpr std::string_view of_last_axis[] = {"MatMul", "Add", "Sub",
                                             "Mul",    "Div", "LayerNormalization"};

template <size_t n>
bool contains(const std::string_view (&all)[n], std::string_view type) {
  return std::ranges::find(all, type) != std::end(all);
}

}  // namespace

bool onnx_is_of_elements(std::string_view type) { return contains(without_place, type); }

bool onnx_is_of_last_axis(std::string_view type) {
  return type == "Gemm" || contains(of_last_axis, type);
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
