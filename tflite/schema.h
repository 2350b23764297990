// The parts of a `.tflite` model that are read and written: tables of its schema, by field
// number.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "qtape/core/enum_names.h"
#include "qtape/core/types.h"

/// Models of TensorFlow Lite.
namespace qtape::tflite {

/// File identifier and schema version.
inline constexpr const char* identifier = "TFL3";
inline constexpr uint32_t schema_version = 3;

/// Element type of a tensor, by its number in the schema.
enum class TfliteType : int8_t {
  Float32 = 0,
  Int32 = 2,
  UInt8 = 3,
  Int64 = 4,
  Int16 = 7,
  Int8 = 9,
  Int4 = 17
};

/// Returns the type of the codes of a tensor of activations, INT8 or INT16; empty for others.
std::optional<DType> code_type(TfliteType type);
/// Returns the type of a tensor whose codes are s8 or s16; empty for others.
std::optional<TfliteType> type_of_codes(DType dtype);

enum class Activation : int8_t { None, Relu, ReluN1To1, Relu6, Tanh, SignBit };
enum class PaddingType : int8_t { Same, Valid };
enum class WeightsFormat : int8_t { Default, Shuffled };

/// Operators that are read or written, by their number in the schema.
enum class Builtin : int32_t {
  Add = 0,
  AveragePool2d = 1,
  Concatenation = 2,
  Conv2d = 3,
  DepthwiseConv2d = 4,
  Dequantize = 6,
  FullyConnected = 9,
  Logistic = 14,
  MaxPool2d = 17,
  Mul = 18,
  Relu = 19,
  ReluN1To1 = 20,
  Relu6 = 21,
  Reshape = 22,
  Softmax = 25,
  Tanh = 28,
  Custom = 32,
  Pad = 34,
  Mean = 40,
  Sub = 41,
  Squeeze = 43,
  PadV2 = 60,
  ExpandDims = 70,
  LeakyRelu = 98,
  Quantize = 114,
  HardSwish = 117
};

/// Returns the name of any operator of the schema, as TensorFlow Lite spells it: `CONV_2D`.
std::string name_of(Builtin op);
/// Returns the name of an element type: `INT8`.
std::string name_of(TfliteType type);

/// A member of a table of options: its field number.
template <class S, class T>
struct OptionField {
  int number;
  std::string_view name;
  T S::*member;
};
template <class S, class T>
OptionField(int, std::string_view, T S::*) -> OptionField<S, T>;

// Options of operators. `union_type` is the number of the table in the union of all options.
// Members have the schema's defaults.

struct Conv2dOptions {
  static constexpr uint8_t union_type = 1;
  PaddingType padding = PaddingType::Same;
  int32_t stride_w = 0;
  int32_t stride_h = 0;
  Activation activation = Activation::None;
  int32_t dilation_w = 1;
  int32_t dilation_h = 1;
  TfliteType bias_type = TfliteType::Float32;  ///< of INT16 without a bias
  static constexpr auto fields() {
    using O = Conv2dOptions;
    return std::tuple{OptionField{0, "padding", &O::padding},
                      OptionField{1, "stride_w", &O::stride_w},
                      OptionField{2, "stride_h", &O::stride_h},
                      OptionField{3, "fused_activation_function", &O::activation},
                      OptionField{4, "dilation_w_factor", &O::dilation_w},
                      OptionField{5, "dilation_h_factor", &O::dilation_h},
                      OptionField{6, "quantized_bias_type", &O::bias_type}};
  }
};

struct DepthwiseConv2dOptions {
  static constexpr uint8_t union_type = 2;
  PaddingType padding = PaddingType::Same;
  int32_t stride_w = 0;
  int32_t stride_h = 0;
  int32_t depth_multiplier = 0;
  Activation activation = Activation::None;
  int32_t dilation_w = 1;
  int32_t dilation_h = 1;
  static constexpr auto fields() {
    using O = DepthwiseConv2dOptions;
    return std::tuple{OptionField{0, "padding", &O::padding},
                      OptionField{1, "stride_w", &O::stride_w},
                      OptionField{2, "stride_h", &O::stride_h},
                      OptionField{3, "depth_multiplier", &O::depth_multiplier},
                      OptionField{4, "fused_activation_function", &O::activation},
                      OptionField{5, "dilation_w_factor", &O::dilation_w},
                      OptionField{6, "dilation_h_factor", &O::dilation_h}};
  }
};

struct Pool2dOptions {
  static constexpr uint8_t union_type = 5;
  PaddingType padding = PaddingType::Same;
  int32_t stride_w = 0;
  int32_t stride_h = 0;
  int32_t filter_width = 0;
  int32_t filter_height = 0;
  Activation activation = Activation::None;
  static constexpr auto fields() {
    using O = Pool2dOptions;
    return std::tuple{OptionField{0, "padding", &O::padding},
                      OptionField{1, "stride_w", &O::stride_w},
                      OptionField{2, "stride_h", &O::stride_h},
                      OptionField{3, "filter_width", &O::filter_width},
                      OptionField{4, "filter_height", &O::filter_height},
                      OptionField{5, "fused_activation_function", &O::activation}};
  }
};

struct FullyConnectedOptions {
  static constexpr uint8_t union_type = 8;
  Activation activation = Activation::None;
  WeightsFormat weights_format = WeightsFormat::Default;
  bool keep_num_dims = false;
  TfliteType bias_type = TfliteType::Float32;  ///< of INT16 without a bias
  static constexpr auto fields() {
    using O = FullyConnectedOptions;
    return std::tuple{OptionField{0, "fused_activation_function", &O::activation},
                      OptionField{1, "weights_format", &O::weights_format},
                      OptionField{2, "keep_num_dims", &O::keep_num_dims},
                      OptionField{4, "quantized_bias_type", &O::bias_type}};
  }
};

struct SoftmaxOptions {
  static constexpr uint8_t union_type = 9;
  float beta = 0;
  static constexpr auto fields() {
    return std::tuple{OptionField{0, "beta", &SoftmaxOptions::beta}};
  }
};

struct ConcatenationOptions {
  static constexpr uint8_t union_type = 10;
  int32_t axis = 0;
  Activation activation = Activation::None;
  static constexpr auto fields() {
    using O = ConcatenationOptions;
    return std::tuple{OptionField{0, "axis", &O::axis},
                      OptionField{1, "fused_activation_function", &O::activation}};
  }
};

struct AddOptions {
  static constexpr uint8_t union_type = 11;
  Activation activation = Activation::None;
  /// True if scales of INT16 are powers of 2; TensorFlow Lite Micro needs multipliers: false.
  bool shifts_int16 = true;
  static constexpr auto fields() {
    using O = AddOptions;
    return std::tuple{OptionField{0, "fused_activation_function", &O::activation},
                      OptionField{1, "pot_scale_int16", &O::shifts_int16}};
  }
};

struct ReshapeOptions {
  static constexpr uint8_t union_type = 17;
  std::vector<int32_t> new_shape = {};
  static constexpr auto fields() {
    return std::tuple{OptionField{0, "new_shape", &ReshapeOptions::new_shape}};
  }
};

struct SubOptions {
  static constexpr uint8_t union_type = 28;
  Activation activation = Activation::None;
  static constexpr auto fields() {
    return std::tuple{OptionField{0, "fused_activation_function", &SubOptions::activation}};
  }
};

struct MulOptions {
  static constexpr uint8_t union_type = 21;
  Activation activation = Activation::None;
  static constexpr auto fields() {
    return std::tuple{OptionField{0, "fused_activation_function", &MulOptions::activation}};
  }
};

struct ReducerOptions {
  static constexpr uint8_t union_type = 27;
  bool keep_dims = false;
  static constexpr auto fields() {
    return std::tuple{OptionField{0, "keep_dims", &ReducerOptions::keep_dims}};
  }
};

struct LeakyReluOptions {
  static constexpr uint8_t union_type = 75;
  float alpha = 0;
  static constexpr auto fields() {
    return std::tuple{OptionField{0, "alpha", &LeakyReluOptions::alpha}};
  }
};

/// Options of an operator; empty where there are none that are read here.
using Options =
    std::variant<std::monostate, Conv2dOptions, DepthwiseConv2dOptions, Pool2dOptions,
                 FullyConnectedOptions, SoftmaxOptions, ConcatenationOptions, AddOptions,
                 ReshapeOptions, SubOptions, MulOptions, ReducerOptions, LeakyReluOptions>;

struct TfliteTensor {
  std::string name;  ///< its first 1,024 bytes
  std::vector<int32_t> shape;
  TfliteType type = TfliteType::Float32;
  uint32_t buffer = 0;  ///< index of its constant data; 0: none
  std::vector<float> scales;
  std::vector<int64_t> zero_points;
  int32_t quantized_dimension = 0;
  bool is_variable = false;
};

struct TfliteOperator {
  Builtin op = Builtin::Custom;
  int32_t version = 1;
  std::string custom;           ///< name of a custom operator
  std::vector<int32_t> inputs;  ///< tensors; -1: left out
  std::vector<int32_t> outputs;
  Options options;
  bool has_other_options = false;  ///< of a type that is not read here
};

/// The first subgraph of a model.
struct TfliteModel {
  std::string description;
  std::vector<std::vector<std::byte>> buffers;  ///< by index; 0 is empty
  std::vector<TfliteTensor> tensors;
  std::vector<TfliteOperator> operators;  ///< in order of execution
  std::vector<int32_t> inputs;            ///< tensors
  std::vector<int32_t> outputs;
};

/// Reads a model from the bytes of a file. Throws FormatError, which begins with the place, for
/// damaged files, other schema versions, indices out of range, several subgraphs and sparse
/// tensors.
TfliteModel parse_model(std::string_view bytes);

/// Returns the bytes of a file, with all data aligned to 16 bytes.
std::string model_bytes(const TfliteModel& model);

}  // namespace qtape::tflite
