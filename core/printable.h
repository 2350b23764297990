// Names from external sources, escaped for messages.
#pragma once

#include <string>
#include <string_view>

namespace qtape {

/// Maximum number of characters of a name shown in a message.
inline constexpr int max_printed = 80;

/// Escapes a label, a name or a key of a file for a message of one line. Control characters,
/// line breaks and marks of text direction become escapes such as `\n` and `\u001b`; bytes that
/// are not UTF-8 become escapes such as `\xff`; text after the first 80 characters becomes
/// `...`.
std::string printable(std::string_view name);

}  // namespace qtape
