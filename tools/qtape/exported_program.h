// What is exported: a program, or what a model converts to.
#pragma once

#include <optional>
#include <string>

#include "qtape/integer/integer_program.h"

namespace qtape::tool {

/// The program of a file; of a model what it converts to, of `requantization` or, where that is
/// not given, the `usual` one. Throws ArgumentError for a program of another requantization.
IntegerProgram exported_program(const std::string& path,
                                std::optional<Requantization> requantization,
                                Requantization usual, bool integer_outputs);

}  // namespace qtape::tool
