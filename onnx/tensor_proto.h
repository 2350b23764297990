// Tensors of ONNX files.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <vector>

#include "qtape/core/types.h"

namespace qtape {

/// The element type INT4 of opset 21, which older ONNX headers do not define.
inline constexpr int32_t onnx_int4 = 22;

/// A constant of an ONNX model: f32 values, or integers.
struct OnnxConstant {
  Shape shape = {};
  std::vector<float> floats = {};
  std::vector<int64_t> integers = {};
  bool is_float = true;
  int batch_axis = -1;   ///< axis of extent 1 that stands for the batch extent; -1 if none
  bool unknown = false;  ///< true if NaN stands for floats that depend on the batch extent
};

/// Returns the number of bytes of the raw data of `tensor`. Throws FormatError, which does not
/// name the tensor, for negative extents and types that are not supported.
int64_t data_bytes(const onnx::TensorProto& tensor);

/// Reads floats of 16, 32 and 64 bits as f32; integers of any size, including raw INT4, and
/// booleans as s64. Throws FormatError for other types, for external data, and for data whose
/// size does not match the extents, before allocating memory for it.
OnnxConstant read_constant(const onnx::TensorProto& tensor);

}  // namespace qtape
