// Conversion of ONNX data, with channels first, to the library's order, with channels last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace qtape {

/// Returns a matrix [rows, columns] as [columns, rows].
template <class T>
std::vector<T> transposed(const std::vector<T>& a, int64_t rows, int64_t columns) {
  std::vector<T> result(a.size());
  for (int64_t r = 0; r < rows && !a.empty(); ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      result[static_cast<size_t>(c * rows + r)] = a[static_cast<size_t>(r * columns + c)];
    }
  }
  return result;
}

/// Returns elements of [outer, channels, places] as [outer, places, channels].
inline std::vector<float> channels_behind(const std::vector<float>& numbers, int64_t outer,
                                          int64_t channels, int64_t places) {
  std::vector<float> result;
  result.reserve(numbers.size());
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t p = 0; p < places; ++p) {
      for (int64_t c = 0; c < channels; ++c) {
        result.push_back(numbers[static_cast<size_t>((o * channels + c) * places + p)]);
      }
    }
  }
  return result;
}

}  // namespace qtape
