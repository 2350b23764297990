// Files of every format that commands read.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <span>
#include <string>

#include "qtape/core/error.h"
#include "qtape/core/printable.h"
#include "qtape/deploy/any_file.h"
#include "qtape/programs/output_files.h"

namespace qtape::tool {

/// Reads a model, an ONNX model, which has a name that ends in `.onnx`, or a `.tflite` model as
/// a model; prints a line for each property that it does not keep. `files` receives the files
/// next to an ONNX model that hold its data. Throws IoError or FormatError, both beginning with
/// the path.
SavedModel read_model(const std::string& path, programs::OutputFiles& files);

/// Reads a model, an ONNX model, an integer program, or a `.tflite` model as a program, and
/// keeps the bytes of a `.tflite` model in `tflite`. Prints and throws as `read_model` does.
AnyFile load_file(const std::string& path, programs::OutputFiles& files,
                  NanValues nan = NanValues::Refuse, std::string* tflite = nullptr);

/// Throws FormatError for a NaN in the values called `name` of a file, which models cannot
/// store.
template <std::floating_point T>
void require_no_nan(const std::string& file, const std::string& name,
                    std::span<const T> values) {
  const auto nan = std::ranges::find_if(values, [](T v) { return std::isnan(v); });
  require<FormatError>(nan == values.end(), "{}: element {} of '{}' is NaN", file,
                       nan - values.begin(), printable(name));
}

}  // namespace qtape::tool
