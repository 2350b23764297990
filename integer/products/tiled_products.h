// Fast kernels for products with constant weights: computed tile by tile, each tile followed
// immediately by the epilogue.
#pragma once

#include "qtape/integer/core/integer_binding.h"
#include "qtape/integer/core/quantized_weights.h"
#include "qtape/integer/products/epilogue.h"
#include "qtape/ops/families/convolution.h"

namespace qtape {

/// Returns an epilogue that writes accumulators, in the dtype of the result at run time.
Epilogue store_accumulators(const IntegerBinding& binding);

/// Sets the scales of the accumulators y from the current scales of x and weights.
/// `f32_scales` as in accumulator_scale.
void update_scales(const QuantizedWeights& weights, const IntegerBinding& binding,
                   IntegerValue& y, bool f32_scales = false);

/// Multiplies the rows [..., k] of x. Must run within a ComputingThread. Throws Error if oneDNN
/// fails.
IntegerKernel linear_kernel(const QuantizedWeights& weights, const IntegerBinding& binding,
                            Epilogue epilogue);

/// Multiplies the windows of x, one row per window position, with elements ordered by tap and
/// then channel. Padding holds codes equal to the zero point. One group only.
IntegerKernel window_kernel(const QuantizedWeights& weights, const Convolution& windows,
                            const IntegerBinding& binding, Epilogue epilogue);

}  // namespace qtape
