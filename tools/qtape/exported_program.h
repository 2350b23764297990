// What is exported: a program, or what a model converts to.
#pragma once

#include <optional>
#include <string>

#include "qtape/deploy/any_file.h"

namespace qtape::tool {

/// The program that the file at `path` holds; of a model what it converts to, of
/// `requantization` or, where that is not given, the `usual` one. Throws ArgumentError for a
/// program of another requantization or asked for `integer_outputs`.
IntegerProgram exported_program(AnyFile& file, const std::string& path,
                                std::optional<Requantization> requantization,
                                Requantization usual, bool integer_outputs);

}  // namespace qtape::tool
