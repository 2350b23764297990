// Sequence: combines two kernels.
#pragma once

#include <utility>

#include "qtape/ops/core/op.h"

namespace qtape {

/// Runs `first`, then `second`; either may be empty.
inline Kernel sequence(Kernel first, Kernel second) {
  if (!first) return second;
  if (!second) return first;
  return [first = std::move(first), second = std::move(second)](const Step& step) {
    first(step);
    second(step);
  };
}

}  // namespace qtape
