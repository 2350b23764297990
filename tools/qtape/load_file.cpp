#include "qtape/tools/qtape/load_file.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "qtape/core/printable.h"
#include "qtape/engine/json_file.h"
#include "qtape/onnx/import.h"
#include "qtape/tflite/import.h"

namespace qtape::tool {
namespace {

void print_note(const std::string& path, const std::string& note) {
  fmt::print(stderr, "qtape: {}: {}\n", printable(path), note);
}

/// True for a file with the name of an ONNX model, unless it is text of this project.
bool is_onnx(const std::string& path) {
  std::error_code none;
  if (!path.ends_with(".onnx")) return false;
  if (!std::filesystem::is_regular_file(path, none)) return true;
  std::ifstream file(path);
  char first = 0;
  return !(file >> first && first == '{');
}

SavedModel read_onnx(const std::string& path, programs::OutputFiles& files) {
  std::vector<std::string> left_out;
  std::vector<std::string> data_files;
  SavedModel model = import_onnx(path, &left_out, {.data_files = &data_files});
  files.found_to_read(data_files);
  for (const std::string& each : left_out) print_note(path, each);
  return model;
}

}  // namespace

SavedModel read_model(const std::string& path, programs::OutputFiles& files) {
  if (is_onnx(path)) return read_onnx(path, files);
  return read_text(path, [&](std::string_view text) {
    if (!is_tflite(text)) return model_from_json(text);
    std::vector<std::string> notes;
    SavedModel model = parse_tflite_model(text, &notes);
    for (const std::string& each : notes) print_note(path, each);
    return model;
  });
}

AnyFile load_file(const std::string& path, programs::OutputFiles& files, NanValues nan,
                  std::string* tflite) {
  if (is_onnx(path)) return read_onnx(path, files);
  return read_text(path, [&](std::string_view text) -> AnyFile {
    if (!is_tflite(text)) return any_of(text, nan);
    std::vector<std::string> notes;
    IntegerProgram program = parse_tflite(text, &notes);
    for (const std::string& each : notes) print_note(path, each);
    if (tflite != nullptr) *tflite = text;
    return program;
  });
}

}  // namespace qtape::tool
