// Common part of the fuzzed readers: any bytes are read or refused by an Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "qtape/core/error.h"

namespace qtape::fuzz {

/// Calls `read` with the bytes; errors of the library are expected, anything else ends the
/// program.
template <class Read>
int reads(const uint8_t* data, size_t size, const Read& read) {
  try {
    read(std::string_view(reinterpret_cast<const char*>(data), size));
  } catch (const Error&) {
  }
  return 0;
}

/// Ends the program if a file that was read is not written back equal.
inline void require_equal(bool equal) {
  if (!equal) std::abort();
}

}  // namespace qtape::fuzz
