// Fast kernel for grouped convolutions: loops over the channels of a pixel.
#pragma once

#include "qtape/integer/core/integer_binding.h"
#include "qtape/integer/core/quantized_weights.h"
#include "qtape/integer/products/epilogue.h"
#include "qtape/ops/families/convolution.h"

namespace qtape {

/// Exact for any weights: sums are accumulated in integers of the result's width.
IntegerKernel grouped_kernel(const QuantizedWeights& weights, const Convolution& windows,
                             const IntegerBinding& binding, Epilogue epilogue);

}  // namespace qtape
