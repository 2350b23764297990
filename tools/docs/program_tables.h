// Generated part of docs/integer-program.md.
#pragma once

#include <string>

namespace qtape {

/// Returns the attributes of all ops of integer programs with types and defaults, the limits,
/// and worked examples of multipliers and requantization.
std::string program_tables();

}  // namespace qtape
