// Fast kernel for convolutions with one group and for depthwise ones, on processors that
// multiply codes exactly. It reads windows in place from a padded copy of the image.
#pragma once

#include "qtape/integer/core/integer_binding.h"
#include "qtape/integer/core/quantized_weights.h"
#include "qtape/integer/products/epilogue.h"
#include "qtape/ops/families/convolution.h"

namespace qtape {

/// True if `direct_kernel` supports the convolution of `codes`: the processor has exact
/// products of codes, codes have 8 bits, the convolution has one group or is depthwise, padding
/// does not inflate the image too much, and the number of terms is small enough for 32-bit sums
/// of any codes and weights.
bool is_direct(const Convolution& windows, DType codes);

/// Returns rows [rows, k] as an image of one line whose windows are single elements.
Convolution as_windows(int64_t rows, int64_t k, int64_t n);

IntegerKernel direct_kernel(const QuantizedWeights& weights, const Convolution& windows,
                            const IntegerBinding& binding, Epilogue epilogue);

}  // namespace qtape
