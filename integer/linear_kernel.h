// How products with constant weights run fast: tile by tile, each followed at once by what
// makes codes of its accumulators.
#pragma once

#include "qtape/integer/epilogue.h"
#include "qtape/integer/integer_binding.h"
#include "qtape/integer/quantized_weights.h"
#include "qtape/ops/families/convolution.h"

namespace qtape {

/// Writes accumulators, of the dtype that the result has when it runs.
Epilogue store_accumulators(const IntegerBinding& binding);

/// The scales of the accumulators y, of x and weights that changed since.
void update_scales(const QuantizedWeights& weights, const IntegerBinding& binding,
                   IntegerValue& y);

/// Products of the rows [..., k] of x. Runs within a SerialLibraries. Throws Error when oneDNN
/// fails.
IntegerKernel linear_kernel(const QuantizedWeights& weights, const IntegerBinding& binding,
                            Epilogue epilogue);

/// The same of the windows of x, one row for each place of a window, in the order of taps and
/// channels: padding is codes at the zero point. One group.
IntegerKernel window_kernel(const QuantizedWeights& weights, const Convolution& windows,
                            const IntegerBinding& binding, Epilogue epilogue);

}  // namespace qtape
