// Means that TensorFlow Lite Micro computes as integer programs do.
#pragma once

#include <cstdint>

namespace qtape::tflite {

/// Throws GraphError unless a mean of `n` codes has the same multiplier in both. TensorFlow
/// Lite Micro divides the mantissa by n and truncates: this is exact for powers of two.
void check_mean(int64_t n, double x_scale, double y_scale);

}  // namespace qtape::tflite
