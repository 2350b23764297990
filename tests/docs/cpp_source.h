// The C++ code of a page as one source of the program docs_code.
#pragma once

#include <string>

#include "qtape/tests/docs/page.h"

namespace qtape::docs {

/// Returns a source with fragments in order in one function, and complete programs each in a
/// namespace, after includes and declarations. #line directives map compiler messages to
/// `path`.
std::string cpp_source(const Page& page, const std::string& path);

}  // namespace qtape::docs
