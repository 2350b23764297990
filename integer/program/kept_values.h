// Values that a session keeps.
#pragma once

#include <cstdint>

namespace qtape {

/// Values that stay readable after a run, in addition to inputs and outputs.
enum class KeptValues : uint8_t {
  Outputs,  ///< no others: their memory is reused
  Codes,    ///< all except products that an epilogue consumes while they are in cache
  All
};

}  // namespace qtape
