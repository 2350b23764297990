// Exact arithmetic: a tape's forward computes between quantized operands in integers, so that
// training sees what deployment computes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "qtape/core/aligned.h"
#include "qtape/core/requantization.h"
#include "qtape/engine/arithmetic.h"

namespace qtape {

/// On codes, requantized as `requantization` does. Every node still has its float value, (q -
/// zp) s or S acc, for gradients and whoever reads it.
/// Empty: in floats.
Arithmetic exact(std::optional<Requantization> requantization);

/// The integers of one node in the last step.
struct ExactValue {
  bool exact = false;                 ///< they are there: quantizers applied, no NaN came in
  AlignedBuffer codes;                ///< Codes: q - zp as f32 [elements]
  std::vector<int64_t> accumulators;  ///< Accumulators: [elements]
  std::vector<double>
      scales;  ///< Codes: one; Accumulators: one, or one for each index of the last axis
  /// Largest |q - zp| that the grid allows.
  int64_t limit = 0;
  /// Codes: stored in 16 bits; Accumulators: of products of such codes, which targets take in
  /// s64.
  bool wide = false;

  float* code() const { return reinterpret_cast<float*>(codes.data()); }
};

}  // namespace qtape
