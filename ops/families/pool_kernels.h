// Division of work on images for kernels that iterate over their rows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "qtape/kernels/simd/threads.h"

namespace qtape {

/// Minimum number of rows per thread, for rows of `elements` elements with `terms` terms each.
inline int64_t row_grain(int64_t elements, int64_t terms) {
  const int64_t row = kernels::pointwise_grain / std::max<int64_t>(1, elements);
  return std::max<int64_t>(1, row / std::max<int64_t>(1, terms));
}

}  // namespace qtape
