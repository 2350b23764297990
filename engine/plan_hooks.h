// What tests of memory ask of a plan.
#pragma once

#include <cstdint>

namespace qtape {

struct PlanHooks {
  bool share_memory = true;  ///< false: every buffer is its own
  int64_t guard_bytes = 0;   ///< space after every buffer, at most 4096
};

}  // namespace qtape
