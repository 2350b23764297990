// Integers that an ONNX model computes from shapes, among them multiples of the batch extent.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace qtape {

/// Stands for the batch extent. The next numbers stand for 2, 3, ... times the batch extent.
inline constexpr int64_t onnx_batch = -(int64_t{1} << 62);
inline constexpr int64_t max_batches = int64_t{1} << 48;

/// True for the batch extent and its multiples.
inline bool is_batch(int64_t number) {
  return number >= onnx_batch && number < onnx_batch + max_batches;
}
/// Returns the factor of a multiple of the batch extent.
inline int64_t batch_factor(int64_t number) { return number - onnx_batch + 1; }
/// Returns `factor` times the batch extent. Throws FormatError for factors out of range.
int64_t batch_times(int64_t factor);

/// True for a range of the batch axis with all samples.
inline bool keeps_samples(int64_t start, int64_t end) {
  return start == 0 && (end >= int64_t{1} << 31 || is_batch(end));
}

/// Formats an integer of a constant for messages: `batch`, `2 batch`, or its digits.
std::string onnx_number(int64_t number);
/// Returns `[batch, 3, 8]`.
std::string extents_text(const std::vector<int64_t>& extents);

/// Returns the result of the arithmetic or comparison `op` for any number of samples, or for
/// that many `samples` if not 0. Throws FormatError for results that depend on the number
/// of samples in other ways than a multiple, for overflow and for division by 0.
int64_t folded_integers(std::string_view op, int64_t a, int64_t b, int64_t samples);

}  // namespace qtape
