// How Linear runs fast: tile by tile, each followed at once by what makes codes of its
// accumulators.
#pragma once

#include <functional>

#include "qtape/integer/integer_binding.h"
#include "qtape/integer/ops/dequantize.h"
#include "qtape/integer/ops/linear.h"
#include "qtape/integer/ops/requantize.h"

namespace qtape {

/// What is done with rows of products [rows, n], which lack offsets, while they are in cache:
/// `s32` where codes have 8 bits and accumulators fit s32, else `s64`.
struct Epilogue {
  std::function<void(int64_t row, int64_t rows, const int32_t* products)> s32;
  std::function<void(int64_t row, int64_t rows, const int64_t* products)> s64;
};

/// Writes accumulators: Linear's own result.
Epilogue epilogue(const integer::Linear& op, const IntegerBinding& linear);
/// Writes what `next`, bound as given, makes of the accumulators; these are written nowhere.
Epilogue epilogue(const integer::Linear& op, const IntegerBinding& linear,
                  const integer::Requantize& next, const IntegerBinding& binding);
Epilogue epilogue(const integer::Linear& op, const IntegerBinding& linear,
                  const integer::Dequantize& next, const IntegerBinding& binding);

/// Runs within a SerialLibraries. Throws Error when oneDNN fails.
IntegerKernel linear_kernel(const integer::Linear& op, const IntegerBinding& binding,
                            Epilogue epilogue);

}  // namespace qtape
