// Bounds within which TensorFlow Lite Micro computes the codes of integer programs: beyond them
// its sums of 32 bits wrap around, or its kernels stop. Readers and writers check them.
#pragma once

#include <cstdint>

#include "qtape/integer/core/integer_value.h"

namespace qtape::tflite {

/// Largest number of axes of a tensor, and of those that PAD pads.
inline constexpr int max_axes = 6;
inline constexpr int max_padded_axes = 5;
/// Largest number of inputs of CONCATENATION.
inline constexpr int64_t max_joined = 10;

// All throw GraphError.

/// Checks that the accumulators or codes `x` fit 32 bits, also times their multipliers to the
/// scale `y_scale`; of accumulators of 16-bit codes, only their products with multipliers.
void check_requantized(const IntegerValue& x, double y_scale);
/// Checks the product of two codes, `a` and `b`, which have the type of the result.
void check_product(const IntegerValue& a, const IntegerValue& b, double y_scale);
/// Checks that the multipliers of a sum of two codes are below 1.
void check_sum(const IntegerValue& a, const IntegerValue& b, double y_scale);
/// Checks a mean of `n` codes `x`.
void check_mean(int64_t n, const IntegerValue& x, double y_scale);
/// Checks that codes `x` have 8 bits, and that the exponentials of a softmax over them cannot
/// exceed its sum.
void check_softmax(const IntegerValue& x);

}  // namespace qtape::tflite
