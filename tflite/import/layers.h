// The operators of a file as layers, read once for integer programs and for models.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "qtape/ops/families/window.h"
#include "qtape/tflite/import/operator_view.h"

namespace qtape::tflite {

/// Constant factors of a product, in rows of outputs, and its bias: codes of tensors of codes,
/// values of tensors of floats.
struct ProductWeights {
  Shape shape;   ///< [outputs, ...], a filter [outputs, h, w, channels of a group]
  int bits = 8;  ///< of codes; 0 if there are values
  std::vector<int8_t> codes = {};
  std::vector<float> values = {};
  std::vector<int32_t> bias_codes = {};
  std::vector<float> bias_values = {};
  std::span<const float> scales = {};  ///< one, or one by output

  bool has_codes() const { return bits > 0; }
  /// Returns the scale of an output.
  float scale(int64_t output) const {
    return scales[scales.size() == 1 ? 0 : static_cast<size_t>(output)];
  }
};

// Layers by the integers or values of their operands. The bounds of shapes are checked by the
// nodes that they become.

struct ConvLayer {
  ProductWeights weights;
  Shape taps;
  Shape stride;
  Shape dilation;
  Padding padding = Padding::Valid;
  int64_t groups = 1;
  Activation activation = Activation::None;
};
struct LinearLayer {
  ProductWeights weights;
  bool flattened = false;  ///< x is [-1, terms] for the product
  Activation activation = Activation::None;
};
struct AddLayer {
  Activation activation = Activation::None;
};
struct SubLayer {
  Activation activation = Activation::None;
};
struct MulLayer {
  Activation activation = Activation::None;
};
/// The mean or maximum of windows. A mean does not count padding.
struct PoolLayer {
  bool largest = false;
  Shape kernel;
  Shape stride;
  Padding padding = Padding::Valid;
  Activation activation = Activation::None;
};
struct MeanLayer {
  std::vector<int> axes;
  bool keep_dims = false;
  int64_t terms = 1;  ///< of each mean
};
/// Of beta x, over the last axis.
struct SoftmaxLayer {
  double beta = 1;
};
/// Relu of codes of another scale, LeakyRelu, HardSwish, Logistic or Tanh.
struct FunctionLayer {
  Builtin function = Builtin::Relu;
  float alpha = 0;  ///< of LeakyRelu
};
/// Limits that keep the scale.
struct LimitLayer {
  Activation activation = Activation::None;
};
struct ReshapeLayer {
  std::vector<int64_t> shape;  ///< -1 for the batch
};
struct PadLayer {
  Shape begin;
  Shape end;
  float value = 0;                   ///< of floats
  std::optional<int32_t> code = {};  ///< of codes; by default that of 0
};
struct ConcatLayer {
  int axis = 0;
};
/// Codes of floats, or of codes of another grid.
struct QuantizeLayer {};
/// The values of codes.
struct DequantizeLayer {};

using Layer = std::variant<ConvLayer, LinearLayer, AddLayer, SubLayer, MulLayer, PoolLayer,
                           MeanLayer, SoftmaxLayer, FunctionLayer, LimitLayer, ReshapeLayer,
                           PadLayer, ConcatLayer, QuantizeLayer, DequantizeLayer>;

/// Returns the padding of a file. Throws for other numbers than those of SAME and VALID.
Padding padding_of(PaddingType padding);

/// An operator that can be read.
struct OperatorReader {
  Builtin op;
  int32_t last_version;
  Layer (*read)(OperatorView& view);
  bool in_programs = true;  ///< false: only models have it
};

// Readers by family.
std::span<const OperatorReader> product_readers();
std::span<const OperatorReader> pointwise_readers();
std::span<const OperatorReader> window_readers();
std::span<const OperatorReader> structure_readers();
/// Returns the readers of all operators.
std::array<std::span<const OperatorReader>, 4> all_readers();

}  // namespace qtape::tflite
