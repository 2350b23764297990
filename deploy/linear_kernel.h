// How Linear runs fast: tile by tile, each followed at once by what makes codes of its sums.
#pragma once

#include <functional>

#include "qtape/deploy/ops/dequantize.h"
#include "qtape/deploy/ops/linear.h"
#include "qtape/deploy/ops/requantize.h"

namespace qtape {

/// What is done with rows of products [rows, n], which lack offsets, while they are in cache:
/// `narrow` where codes have 8 bits and sums fit s32, else `wide`.
struct Epilogue {
  std::function<void(int64_t row, int64_t rows, const int32_t* products)> narrow;
  std::function<void(int64_t row, int64_t rows, const int64_t* products)> wide;
};

/// Writes sums: Linear's own result.
Epilogue epilogue(const integer::Linear& op, const IntegerBinding& linear);
/// Writes what `next`, bound as given, makes of the sums; these are written nowhere.
Epilogue epilogue(const integer::Linear& op, const IntegerBinding& linear,
                  const integer::Requantize& next, const IntegerBinding& binding);
Epilogue epilogue(const integer::Linear& op, const IntegerBinding& linear,
                  const integer::Dequantize& next, const IntegerBinding& binding);

/// Runs within a SerialLibraries. Throws Error when oneDNN fails.
IntegerKernel linear_kernel(const integer::Linear& op, const IntegerBinding& binding,
                            Epilogue epilogue);

}  // namespace qtape
