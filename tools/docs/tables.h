// Parts of pages of docs that follow from the code.
#pragma once

#include <string>
#include <string_view>

namespace qtape {

/// `page` with every part between `<!-- written by write_tables: NAME -->` and `<!-- end -->`
/// written anew. NAME is `integer program` or `observers`. Throws FormatError for a page
/// without such parts, a name that is none and a part without an end.
std::string with_tables(std::string_view page);

}  // namespace qtape
