// How convolutions of one group, and depthwise ones, run where the processor multiplies codes
// exactly: windows are read where they lie in an image with its padding.
#pragma once

#include "qtape/integer/epilogue.h"
#include "qtape/integer/integer_binding.h"
#include "qtape/integer/quantized_weights.h"
#include "qtape/ops/families/convolution.h"

namespace qtape {

/// Whether `direct_kernel` takes the convolution of `codes`: in 8 bits and one group
/// or depthwise, with little padding, of no more terms than sums of 32 bits take of any codes
/// and weights.
bool is_direct(const Convolution& windows, DType codes);

/// Exact for any codes and weights. `windows` must be direct.
/// Rows [rows, k] as an image of one line whose windows are single elements.
Convolution as_windows(int64_t rows, int64_t k, int64_t n);

IntegerKernel direct_kernel(const QuantizedWeights& weights, const Convolution& windows,
                            const IntegerBinding& binding, Epilogue epilogue);

}  // namespace qtape
