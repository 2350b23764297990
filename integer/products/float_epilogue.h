// Epilogue that converts products of codes to floats while they are in cache.
#pragma once

#include "qtape/integer/products/epilogue.h"

namespace qtape {

/// y = limit(float(sum) scales + bias) over rows of n; scales and biases are read in each step.
struct FloatEpilogue {
  int64_t n = 0;
  const float* scales = nullptr;  ///< [n]
  const float* bias = nullptr;    ///< [n], or null
  float low = 0;
  float high = 0;
  float* y = nullptr;
};

/// Returns the epilogue; its `load` takes integer offsets.
Epilogue float_epilogue(const FloatEpilogue& made_of);

}  // namespace qtape
