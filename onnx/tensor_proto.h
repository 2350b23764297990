// Tensors of ONNX files.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <vector>

#include "qtape/core/types.h"

namespace qtape {

/// The element type INT4 of opset 21, which older headers of ONNX do not name.
inline constexpr int32_t onnx_int4 = 22;

/// A constant of an ONNX model: numbers as f32, or whole numbers.
struct OnnxConstant {
  Shape shape = {};
  std::vector<float> floats = {};
  std::vector<int64_t> integers = {};
  bool is_float = true;
};

/// Reads floats of 16, 32 and 64 bits as f32, and integers of any size, raw INT4 among them,
/// and booleans as s64. Throws FormatError for other types, data in another file and data of
/// another size than the extents say, before memory is taken for it.
OnnxConstant read_constant(const onnx::TensorProto& tensor);

}  // namespace qtape
