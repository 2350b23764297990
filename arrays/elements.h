// What formats of arrays share: spellings of dtypes, lengths and truth values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "qtape/core/types.h"

namespace qtape {

/// How a format spells a dtype.
struct DTypeSpelling {
  std::string_view text;
  DType dtype;
};

/// The little-endian number of `count` bytes, at most 8, from `at` on.
inline uint64_t number_at(std::string_view bytes, size_t at, size_t count) {
  uint64_t number = 0;
  for (size_t i = count; i-- > 0;) {
    number = number << 8 | static_cast<uint8_t>(bytes[at + i]);
  }
  return number;
}

/// Makes 1 of all bytes but 0.
inline void make_booleans(std::vector<std::byte>& data) {
  for (std::byte& each : data) each = std::byte{each != std::byte{0}};
}

}  // namespace qtape
