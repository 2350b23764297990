// Generated parts of documentation pages.
#pragma once

#include <string>
#include <string_view>

namespace qtape {

/// Returns `page` with every part between `<!-- written by write_tables: NAME -->` and
/// `<!-- end -->` regenerated. NAME is `integer program` or `observers`. Throws FormatError for
/// a page without such parts, an unknown name and a part without an end.
std::string with_tables(std::string_view page);

}  // namespace qtape
