// Filters of depthwise convolutions, which files store by taps and programs by outputs.
#pragma once

#include <cstdint>
#include <vector>

namespace qtape::tflite {

/// Returns numbers [rows, columns] as [columns, rows].
template <class T>
std::vector<T> transposed(const std::vector<T>& numbers, int64_t rows, int64_t columns) {
  std::vector<T> moved(numbers.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      moved[static_cast<size_t>(c * rows + r)] = numbers[static_cast<size_t>(r * columns + c)];
    }
  }
  return moved;
}

}  // namespace qtape::tflite
