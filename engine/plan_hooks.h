// Options of a plan for memory tests.
#pragma once

#include <cstdint>

namespace qtape {

struct PlanHooks {
  bool share_memory = true;  ///< false: buffers share no memory
  int64_t guard_bytes = 0;   ///< space after every buffer, at most 2^20
};

}  // namespace qtape
