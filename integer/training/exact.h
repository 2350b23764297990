// Exact arithmetic: the forward pass of a tape runs the integer ops that are deployed, between
// quantized operands.
#pragma once

#include <cstdint>
#include <optional>

#include "qtape/core/requantization.h"
#include "qtape/engine/arithmetic.h"
#include "qtape/integer/core/integer_value.h"

namespace qtape {

/// Options of exact arithmetic.
struct ExactOptions {
  /// Keep the integers of every node readable after a step, see Tape::integers; otherwise their
  /// memory is reused.
  bool keep = false;
};

/// Exact arithmetic on codes, requantized as `requantization` specifies. A node still has its
/// float value, (q - zp) s or S acc, if gradients or any other reader need it. Float arithmetic
/// if `requantization` is empty.
Arithmetic exact(std::optional<Requantization> requantization, ExactOptions options = {});

/// Products of quantized operands are computed on their 8-bit codes, everything else in floats:
/// y = float(sum of codes) s_x s_w. The result differs from fake quantization only by the
/// rounding of float sums, and is the same on all processors. If all quantizers of a step
/// apply, their values are held as codes, which the backward pass reads as well. A NaN that
/// reaches such a quantizer makes all of its products NaN. The backward pass, weights and
/// states are those of float arithmetic.
Arithmetic products_of_codes();

/// The integers of one node in the last step.
struct ExactValue {
  bool exact = false;  ///< true if the integers exist: quantizers applied and no input was NaN
  IntegerValue value;
  const std::byte* data = nullptr;  ///< elements of the dtype of `value`

  /// Returns element i: a code or an accumulator.
  int64_t at(int64_t i) const;
};

}  // namespace qtape
