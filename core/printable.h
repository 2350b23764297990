// Names that come from outside, as messages show them.
#pragma once

#include <string>
#include <string_view>

namespace qtape {

/// Characters of a name that a message shows at most.
inline constexpr int max_printed = 80;

/// A label, a name or a key of a file for a message of one line: control characters, and those
/// that break lines or turn the direction of writing, as `\n` or `\u001b`, bytes that are not
/// UTF-8 as `\xff`, and `...` for what follows the first 80 characters.
std::string printable(std::string_view name);

}  // namespace qtape
