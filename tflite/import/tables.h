// Functions of single codes, as the kernels of TensorFlow Lite Micro compute them for INT8: a
// code of y for each code of x.
#pragma once

#include <cstdint>
#include <vector>

#include "qtape/integer/core/integer_value.h"

namespace qtape::tflite {

/// 256 codes of y, that of the code -128 first.
using CodeTable = std::vector<int8_t>;

CodeTable relu_table(const CodeGrid& x, const CodeGrid& y);
CodeTable leaky_relu_table(const CodeGrid& x, const CodeGrid& y, float alpha);
/// Throws GraphError for a scale of y that is smaller than 1/128 of that of x.
CodeTable hard_swish_table(const CodeGrid& x, const CodeGrid& y);
/// Throws GraphError unless the grid of y has the scale 1/256 and the zero point -128.
CodeTable logistic_table(const CodeGrid& x, const CodeGrid& y);
/// Throws GraphError unless the grid of y has the scale 1/128 and the zero point 0.
CodeTable tanh_table(const CodeGrid& x, const CodeGrid& y);

}  // namespace qtape::tflite
