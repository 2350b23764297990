// The name that was meant, for messages about one that there is not.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace qtape {

/// Letters to change, insert or leave out between two words.
size_t edit_distance(std::string_view a, std::string_view b);

/// The first of `names` with the least distance from `given`; empty where there are none.
std::string nearest(std::string_view given, std::span<const std::string> names);

}  // namespace qtape
