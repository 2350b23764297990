// Common parts of array formats: spellings of dtypes, little-endian numbers and booleans.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "qtape/core/types.h"

namespace qtape {

/// Spelling of a dtype in a format.
struct DTypeSpelling {
  std::string_view text;
  DType dtype;
};

/// Little-endian number of `count` bytes, at most 8, starting at `at`.
inline uint64_t number_at(std::string_view bytes, size_t at, size_t count) {
  uint64_t number = 0;
  for (size_t i = count; i-- > 0;) {
    number = number << 8 | static_cast<uint8_t>(bytes[at + i]);
  }
  return number;
}

/// Replaces all bytes other than 0 by 1.
inline void make_booleans(std::span<std::byte> data) {
  for (std::byte& each : data) each = std::byte{each != std::byte{0}};
}

}  // namespace qtape
