// The part of docs/integer-program.md that follows from the code, as text.
#pragma once

#include <string>
#include <string_view>

namespace qtape {

/// Attributes of all ops of integer programs with their types and defaults, limits, and worked
/// examples of multipliers and requantization.
std::string program_tables();

/// `page` with that text between its two marks. Throws FormatError when a mark is missing.
std::string with_program_tables(std::string_view page);

}  // namespace qtape
