#include "qtape/tflite/activations.h"

#include <algorithm>
#include <cmath>

#include "qtape/core/error.h"

namespace qtape::tflite {
namespace {

/// Returns the code of `value`, halves away from zero.
int32_t limit_code(float value, const CodeGrid& grid) {
  const float code = std::round(value / static_cast<float>(grid.scale));
  return grid.zero_point + static_cast<int32_t>(std::clamp(code, -65536.0f, 65536.0f));
}

CodeGrid between(CodeGrid grid, std::optional<float> low, std::optional<float> high) {
  if (low) grid.low = std::max(grid.low, limit_code(*low, grid));
  if (high) grid.high = std::min(grid.high, limit_code(*high, grid));
  return grid;
}

}  // namespace

void fail_activation(Activation activation) {
  fail<GraphError>(
      "has the fused activation {}, expected 0 (NONE), 1 (RELU), 2 (RELU_N1_TO_1) or 3 "
      "(RELU6)",
      static_cast<int>(activation));
}

CodeGrid limited(CodeGrid grid, Activation activation) {
  const bool narrow = grid.dtype == DType::S8;
  grid.low = narrow ? -128 : -32768;
  grid.high = narrow ? 127 : 32767;
  switch (activation) {
    case Activation::None:
      return grid;
    case Activation::Relu:
      return between(grid, 0.0f, {});
    case Activation::Relu6:
      return between(grid, 0.0f, 6.0f);
    case Activation::ReluN1To1:
      return between(grid, -1.0f, 1.0f);
    default:
      fail_activation(activation);
  }
}

std::optional<Activation> activation_of(const CodeGrid& grid) {
  for (const Activation each :
       {Activation::None, Activation::Relu, Activation::Relu6, Activation::ReluN1To1}) {
    if (limited(grid, each) == grid) return each;
  }
  return std::nullopt;
}

}  // namespace qtape::tflite
