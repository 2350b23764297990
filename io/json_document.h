// Parsing of JSON documents. Included only by .cpp files.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "qtape/io/json_fields.h"

namespace qtape {

/// Maximum nesting depth of containers, including the outermost.
inline constexpr size_t deepest_nesting = 64;

/// Parses all of `text` in linear time. Throws FormatError for invalid JSON, a NUL byte, a
/// repeated key in an object, and nesting deeper than `deepest_nesting`.
Json parse_document(std::string_view text);

/// First key of the outermost object that is one of `names`; empty if the text ends or becomes
/// invalid before it. Does not read beyond that key.
std::string first_key(std::string_view text, std::initializer_list<std::string_view> names);

}  // namespace qtape
