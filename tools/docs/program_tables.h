// The part of docs/integer-program.md that follows from the code.
#pragma once

#include <string>

namespace qtape {

/// Attributes of all ops of integer programs with their types and defaults, limits, and worked
/// examples of multipliers and requantization.
std::string program_tables();

}  // namespace qtape
