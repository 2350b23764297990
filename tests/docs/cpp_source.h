// The C++ of a page as one source of the program docs_code.
#pragma once

#include <string>

#include "qtape/tests/docs/page.h"

namespace qtape::docs {

/// Fragments stand in their order in one function, whole programs each in a namespace; includes
/// and declarations go before them. #line leads messages of the compiler to `path`.
std::string cpp_source(const Page& page, const std::string& path);

}  // namespace qtape::docs
