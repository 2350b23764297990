// Exact arithmetic: a tape's forward runs, between quantized operands, the integer ops that
// ship.
#pragma once

#include <cstdint>
#include <optional>

#include "qtape/core/requantization.h"
#include "qtape/engine/arithmetic.h"
#include "qtape/integer/integer_value.h"

namespace qtape {

struct ExactOptions {
  /// Keep the integers of every node readable after a step, see Tape::integers; else their
  /// memory is used again.
  bool keep = false;
};

/// On codes, requantized as `requantization` does. Every node still has its float value, (q -
/// zp) s or S acc, where gradients or anyone else reads it. Empty: in floats.
Arithmetic exact(std::optional<Requantization> requantization, ExactOptions options = {});

/// The integers of one node in the last step.
struct ExactValue {
  bool exact = false;  ///< they are there: quantizers applied, no NaN came in
  IntegerValue value;
  const std::byte* data = nullptr;

  /// Element i: a code or an accumulator.
  int64_t at(int64_t i) const;
};

}  // namespace qtape
