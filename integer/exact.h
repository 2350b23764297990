// Exact arithmetic: a tape's forward runs, between quantized operands, the integer ops that
// ship.
#pragma once

#include <cstdint>
#include <optional>

#include "qtape/core/requantization.h"
#include "qtape/engine/arithmetic.h"
#include "qtape/integer/integer_value.h"

namespace qtape {

/// What exact arithmetic keeps.
struct ExactOptions {
  /// Keep the integers of every node readable after a step, see Tape::integers; else their
  /// memory is used again.
  bool keep = false;
};

/// On codes, requantized as `requantization` does. Every node still has its float value, (q -
/// zp) s or S acc, where gradients or anyone else reads it. Empty: in floats.
Arithmetic exact(std::optional<Requantization> requantization, ExactOptions options = {});

/// Products of quantized operands on their 8-bit codes, everything else in floats: y =
/// float(sum of codes) s_x s_w, which differs from fake quantization by the rounding of float
/// sums alone, and not between processors. Where all quantizers of a step apply, their values
/// are held as codes, which backward reads, too. A NaN that meets such a quantizer makes all of
/// its products NaN. Backward, weights and states are those of floats.
Arithmetic products_of_codes();

/// The integers of one node in the last step.
struct ExactValue {
  bool exact = false;  ///< they are there: quantizers applied, no NaN came in
  IntegerValue value;
  const std::byte* data = nullptr;  ///< elements of the dtype of `value`

  /// Element i: a code or an accumulator.
  int64_t at(int64_t i) const;
};

}  // namespace qtape
