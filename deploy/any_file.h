// Files of either kind.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "qtape/engine/serialize.h"
#include "qtape/integer/integer_program.h"

namespace qtape {

using AnyFile = std::variant<SavedModel, IntegerProgram>;

/// Whether the first member of `text` that tells a model from an integer program is one of a
/// program. Throws nothing: what is no JSON is no program.
bool holds_program(std::string_view text);

/// Reads a model or an integer program. Throws IoError or FormatError, both beginning with the
/// path.
AnyFile load_any(const std::string& path, NanValues nan = NanValues::Refuse);

}  // namespace qtape
