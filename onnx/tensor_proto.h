// Tensors of ONNX files.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "qtape/core/types.h"

namespace qtape {

/// The element types UINT4 and INT4 of opset 21, which older ONNX headers do not define.
inline constexpr int32_t onnx_uint4 = 21;
inline constexpr int32_t onnx_int4 = 22;

/// Codes of a tensor: their type, scales and zero points, one for all, or one for each index of
/// an axis or for each block of indices along it.
struct OnnxCodes {
  int bits = 8;
  bool is_signed = false;
  std::vector<float> scales = {};
  std::vector<int64_t> zero_points = {};  ///< as many as scales
  int axis = 0;                           ///< in the order of ONNX, if there are several scales
  int64_t block = 0;                      ///< indices of a block; 0 if there are no blocks
  bool operator==(const OnnxCodes&) const = default;

  int64_t lowest() const { return is_signed ? -(int64_t{1} << (bits - 1)) : 0; }
  int64_t highest() const { return lowest() + (int64_t{1} << bits) - 1; }
  /// True for the 32-bit codes of biases, which have no quantizer of their own.
  bool of_sums() const { return bits == 32; }
};

/// A constant of an ONNX model: f32 values, or integers.
struct OnnxConstant {
  Shape shape = {};
  std::vector<float> floats = {};
  std::vector<int64_t> integers = {};
  bool is_float = true;
  int batch_axis = -1;   ///< axis of extent 1 that stands for the batch extent; -1 if none
  bool unknown = false;  ///< true if NaN stands for floats that depend on the batch extent
  int32_t type = 0;      ///< ONNX's type of integers of the file; 0 if nodes computed them
  /// Floats: the codes to which a QuantizeLinear rounds them, or from which they come.
  std::optional<OnnxCodes> codes = {};
  /// Output of the QuantizeLinear that will round these floats to `codes`; empty if they are
  /// rounded already.
  std::string unrounded = {};
  /// True if all `codes`, minus their zero points, are signed codes of as many bits.
  bool is_centered = false;
};

/// Returns the number of bytes of the raw data of `tensor`. Throws FormatError, which does not
/// name the tensor, for negative extents and types that are not supported.
int64_t data_bytes(const onnx::TensorProto& tensor);

/// Reads floats of 16, 32 and 64 bits as f32; integers of any size, including raw INT4 and
/// UINT4, and booleans as s64. Throws FormatError for other types, for external data, and for
/// data whose size does not match the extents, before allocating memory for it.
OnnxConstant read_constant(const onnx::TensorProto& tensor);

}  // namespace qtape
