// The operator Quant of QONNX: quantization that stays in floats.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/onnx/export/onnx_writer.h"

namespace qtape {

inline constexpr std::string_view qonnx_domain = "qonnx.custom_op.general";

/// Codes of a Quant node with zero point 0.
struct QuantRange {
  int bits = 8;
  bool is_signed = true;
  bool narrow = false;  ///< without the lowest code of signed ones, the highest of others
};

/// Returns the range whose codes are exactly low..high; nullopt if there is none.
std::optional<QuantRange> quant_range(int64_t low, int64_t high);
/// Returns the smallest range of signed codes, of at least 2 bits, that holds low..high.
QuantRange smallest_signed_range(int64_t low, int64_t high);

/// Adds y = s clamp(half_even(x / s)) and returns its name. There is one scale, or one for each
/// index of axis 0 of x, which has rank `rank`.
std::string add_quant(OnnxWriter& to, const std::string& x, const QuantRange& range,
                      const std::vector<float>& scales, int rank, const std::string& name);

}  // namespace qtape
