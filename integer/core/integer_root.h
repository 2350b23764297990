// Integer square root.
#pragma once

#include <cstdint>

namespace qtape {

/// Returns floor(sqrt(v)) for v in [2^60, 2^62).
inline int64_t integer_root(int64_t v) {
  // Newton's steps from above fall until they reach the root or its successor.
  constexpr int steps = 6;
  int64_t r = int64_t{1} << 31;
  for (int i = 0; i < steps; ++i) r = (r + v / r) / 2;
  return r * r > v ? r - 1 : r;
}

}  // namespace qtape
