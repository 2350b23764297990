#include "qtape/core/printable.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>

namespace qtape {
namespace {

struct Character {
  size_t bytes = 1;
  uint32_t point = 0;
  bool valid = false;
};

/// First character of `text`, which must not be empty. A byte that starts no character is
/// invalid.
Character first_of(std::string_view text) {
  const auto byte = [&](size_t i) { return uint32_t{static_cast<uint8_t>(text[i])}; };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {1, lead, true};
  const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  uint32_t point = lead & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    point = point << 6 | (byte(i) & 0x3f);
  }
  constexpr std::array<uint32_t, 5> least = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = point >= 0xd800 && point <= 0xdfff;
  if (point < least[bytes] || point > 0x10ffff || surrogate) return {};
  return {bytes, point, true};
}

/// True for control characters, line breaks and marks of text direction.
bool is_hidden(uint32_t point) {
  const auto within = [point](uint32_t low, uint32_t high) {
    return point >= low && point <= high;
  };
  return point < 0x20 || within(0x7f, 0x9f) || within(0x200e, 0x200f) ||
         within(0x2028, 0x202e) || within(0x2066, 0x2069);
}

std::string escaped(uint32_t point) {
  switch (point) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return fmt::format("\\u{:04x}", point);
  }
}

}  // namespace

std::string printable(std::string_view name) {
  std::string text;
  for (int shown = 0; !name.empty(); ++shown) {
    if (shown == max_printed) return text + "...";
    const Character next = first_of(name);
    if (!next.valid) {
      text += fmt::format("\\x{:02x}", static_cast<uint8_t>(name[0]));
    } else if (is_hidden(next.point)) {
      text += escaped(next.point);
    } else {
      text += name.substr(0, next.bytes);
    }
    name.remove_prefix(next.bytes);
  }
  return text;
}

}  // namespace qtape
