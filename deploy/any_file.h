// Reading of model files and program files alike.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "qtape/engine/serialize.h"
#include "qtape/integer/program/integer_program.h"

namespace qtape {

using AnyFile = std::variant<SavedModel, IntegerProgram>;

/// True if `text` holds an integer program, judged by the first member that only one of the two
/// formats has. Never throws; returns false for invalid JSON.
bool holds_program(std::string_view text);

/// Reads the text of a model or an integer program. Throws FormatError.
AnyFile any_of(std::string_view text, NanValues nan = NanValues::Refuse);

/// Reads a model or an integer program. Throws IoError or FormatError, both beginning with the
/// path.
AnyFile load_any(const std::string& path, NanValues nan = NanValues::Refuse);

}  // namespace qtape
