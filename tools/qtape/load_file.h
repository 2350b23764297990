// Files of every format that commands read.
#pragma once

#include <string>

#include "qtape/deploy/any_file.h"

namespace qtape::tool {

/// Reads a model, an integer program or a `.tflite` model, recognized by its content; prints a
/// line for each property of a `.tflite` model that its program does not keep. Throws IoError
/// or FormatError, both beginning with the path.
AnyFile load_file(const std::string& path, NanValues nan = NanValues::Refuse);

}  // namespace qtape::tool
