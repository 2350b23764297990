// Functions of single codes, as the kernels of TensorFlow Lite Micro compute them for INT8: a
// code of y for each code of x.
#pragma once

#include <cstdint>
#include <vector>

#include "qtape/integer/core/integer_value.h"
#include "qtape/tflite/import/layers.h"

namespace qtape::tflite {

/// 256 codes of y, that of the code -128 first.
using CodeTable = std::vector<int8_t>;

/// Throws GraphError for a HARD_SWISH to a scale that is smaller than 1/128 of that of x; and
/// unless the grid of y has the scale 1/256 and the zero point -128 for LOGISTIC, 1/128 and 0
/// for TANH.
CodeTable function_table(const FunctionLayer& layer, const CodeGrid& x, const CodeGrid& y);

}  // namespace qtape::tflite
