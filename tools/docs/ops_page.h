// The reference of all ops as text, made from what the ops declare of themselves.
#pragma once

#include <string>

namespace qtape {

/// docs/ops.md: for each op its documentation, operands, attributes with defaults, and what its
/// backward keeps.
std::string ops_page();

}  // namespace qtape
