// Reference of all ops as text, generated from their declarations.
#pragma once

#include <string>

namespace qtape {

/// Returns docs/ops.md: for each op its documentation, operands, attributes with defaults, and
/// the values that its backward saves.
std::string ops_page();

}  // namespace qtape
