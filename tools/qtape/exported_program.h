// Program to export: an integer program, or the conversion of a model.
#pragma once

#include <optional>
#include <string>

#include "qtape/deploy/any_file.h"

namespace qtape::tool {

/// Returns the program in the file at `path`, or the converted program of a model, with
/// `requantization` or, if it is empty, with `usual`. Throws ArgumentError for a program with
/// another requantization, and for a program with `integer_outputs`.
IntegerProgram exported_program(AnyFile& file, const std::string& path,
                                std::optional<Requantization> requantization,
                                Requantization usual, bool integer_outputs);

}  // namespace qtape::tool
