#include "qtape/io/base64.h"

#include <array>
#include <cstdint>

namespace qtape {
namespace {

constexpr std::string_view alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr uint8_t invalid = 0xff;

constexpr std::array<uint8_t, 256> make_values() {
  std::array<uint8_t, 256> values{};
  values.fill(invalid);
  for (size_t i = 0; i < alphabet.size(); ++i) {
    values[static_cast<uint8_t>(alphabet[i])] = static_cast<uint8_t>(i);
  }
  return values;
}

constexpr std::array<uint8_t, 256> value_of = make_values();

}  // namespace

std::string base64_encode(std::span<const std::byte> data) {
  std::string text;
  text.reserve((data.size() + 2) / 3 * 4);
  for (size_t i = 0; i < data.size(); i += 3) {
    const size_t rest = data.size() - i;
    uint32_t group = std::to_integer<uint32_t>(data[i]) << 16;
    if (rest > 1) group |= std::to_integer<uint32_t>(data[i + 1]) << 8;
    if (rest > 2) group |= std::to_integer<uint32_t>(data[i + 2]);
    text += alphabet[group >> 18];
    text += alphabet[group >> 12 & 63];
    text += rest > 1 ? alphabet[group >> 6 & 63] : '=';
    text += rest > 2 ? alphabet[group & 63] : '=';
  }
  return text;
}

std::optional<std::vector<std::byte>> base64_decode(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=')
    ++padding;
  std::vector<std::byte> data;
  data.reserve(text.size() / 4 * 3);
  for (size_t i = 0; i < text.size(); i += 4) {
    const size_t digits = i + 4 == text.size() ? 4 - padding : 4;
    uint32_t group = 0;
    for (size_t k = 0; k < 4; ++k) {
      const uint8_t value =
          k < digits ? value_of[static_cast<uint8_t>(text[i + k])] : uint8_t{0};
      if (value == invalid) return std::nullopt;
      group = group << 6 | value;
    }
    // Unused bits must be 0, so that each byte sequence has exactly one encoding.
    if ((digits == 3 && (group & 0xff) != 0) || (digits == 2 && (group & 0xffff) != 0)) {
      return std::nullopt;
    }
    data.push_back(static_cast<std::byte>(group >> 16));
    if (digits > 2) data.push_back(static_cast<std::byte>(group >> 8 & 0xff));
    if (digits > 3) data.push_back(static_cast<std::byte>(group & 0xff));
  }
  return data;
}

}  // namespace qtape
