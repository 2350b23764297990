// How Linear runs fast: tile by tile, each followed at once by what makes codes of its
// accumulators.
#pragma once

#include "qtape/integer/epilogue.h"
#include "qtape/integer/integer_binding.h"
#include "qtape/integer/ops/linear.h"

namespace qtape {

/// Writes accumulators, of the dtype that the result has when it runs.
Epilogue store_accumulators(const IntegerBinding& binding);

/// Runs within a SerialLibraries. Throws Error when oneDNN fails.
IntegerKernel linear_kernel(const integer::Linear& op, const IntegerBinding& binding,
                            Epilogue epilogue);

}  // namespace qtape
