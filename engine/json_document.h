// JSON texts as documents. Included by .cpp files only.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "qtape/engine/json_fields.h"

namespace qtape {

/// Containers within containers, the outermost counted.
inline constexpr size_t deepest_nesting = 64;

/// Parses the whole of `text` in linear time. Throws FormatError for what is not JSON, a NUL
/// byte, a key that an object has twice, and nesting deeper than `deepest_nesting`.
Json parse_document(std::string_view text);

/// The first key of the outermost object that is one of `names`; empty where the text ends, or
/// is no JSON any more, before it. Reads no further than that key.
std::string first_key(std::string_view text, std::initializer_list<std::string_view> names);

}  // namespace qtape
