// JSON texts as documents. Included by .cpp files only.
#pragma once

#include <string_view>

#include "qtape/engine/json_fields.h"

namespace qtape {

/// Containers within containers, the outermost counted.
inline constexpr size_t deepest_nesting = 64;

/// Parses the whole of `text` in linear time. Throws FormatError for what is not JSON, a NUL
/// byte, a key that an object has twice, and nesting deeper than `deepest_nesting`.
Json parse_document(std::string_view text);

}  // namespace qtape
