// Files of every format that commands read.
#pragma once

#include <string>

#include "qtape/deploy/any_file.h"
#include "qtape/programs/output_files.h"

namespace qtape::tool {

/// Reads a model or an ONNX model, which has a name that ends in `.onnx`; `files` receives the
/// files beside it that hold its data. Throws IoError or FormatError, both beginning with the
/// path.
SavedModel read_model(const std::string& path, examples::OutputFiles& files);

/// The same, or reads an integer program or a `.tflite` model, recognized by its content;
/// prints a line for each property of a `.tflite` model that its program does not keep, and
/// keeps its bytes in `tflite`.
AnyFile load_file(const std::string& path, examples::OutputFiles& files,
                  NanValues nan = NanValues::Refuse, std::string* tflite = nullptr);

/// True if the file begins as a `.tflite` model does; false if it cannot be read.
bool is_tflite_file(const std::string& path);

}  // namespace qtape::tool
