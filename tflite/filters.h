// Filters of depthwise convolutions, which files store by taps and programs by outputs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace qtape::tflite {

/// Returns codes [rows, columns] as [columns, rows].
inline std::vector<int8_t> transposed(std::span<const int8_t> codes, int64_t rows,
                                      int64_t columns) {
  std::vector<int8_t> moved(codes.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      moved[static_cast<size_t>(c * rows + r)] = codes[static_cast<size_t>(r * columns + c)];
    }
  }
  return moved;
}

}  // namespace qtape::tflite
