// The existing names that are closest to an unknown one, for messages.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace qtape {

/// Letters to change, insert or leave out between two words.
size_t edit_distance(std::string_view a, std::string_view b);

/// Of names that are longer, only so many letters count.
inline constexpr size_t compared_letters = 200;

/// The first of `names` with the least distance from `given`; empty where there are none.
std::string nearest(std::string_view given, std::span<const std::string> names);

/// For the end of a message: `; the nearest are 'a', 'b'`, the two of `names` with the least
/// distance from `given`; for a single one `; the nearest is 'a'`, for none nothing.
std::string nearest_hint(std::string_view given, std::span<const std::string> names);

}  // namespace qtape
