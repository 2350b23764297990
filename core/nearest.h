// Suggestions for unknown names in messages: the closest existing names.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace qtape {

/// Levenshtein distance: the number of letters to change, insert or delete to turn `a` into
/// `b`.
size_t edit_distance(std::string_view a, std::string_view b);

/// Number of leading letters of a name that are compared.
inline constexpr size_t compared_letters = 200;

/// Returns the first of `names` with the smallest edit distance from `given`, or an empty
/// string if `names` is empty.
std::string nearest(std::string_view given, std::span<const std::string> names);

/// Returns the end of a message: `; the nearest are 'a', 'b'` with the two of `names` closest
/// to `given`, `; the nearest is 'a'` if there is only one, or nothing if there are none.
std::string nearest_hint(std::string_view given, std::span<const std::string> names);

}  // namespace qtape
