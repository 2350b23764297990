// How convolutions in groups run fast: by loops over the channels of a pixel.
#pragma once

#include "qtape/integer/epilogue.h"
#include "qtape/integer/integer_binding.h"
#include "qtape/integer/quantized_weights.h"
#include "qtape/ops/families/convolution.h"

namespace qtape {

/// Exact for any weights: sums are in integers of the width that the result has.
IntegerKernel grouped_kernel(const QuantizedWeights& weights, const Convolution& windows,
                             const IntegerBinding& binding, Epilogue epilogue);

}  // namespace qtape
