// Base64 (RFC 4648, section 4), strict: no line breaks, padding required.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace qtape {

std::string base64_encode(std::span<const std::byte> data);

/// Returns the decoded bytes, or nullopt if `text` is not canonical base64.
std::optional<std::vector<std::byte>> base64_decode(std::string_view text);

}  // namespace qtape
