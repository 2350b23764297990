#include "qtape/tools/qtape/load_file.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <fstream>

#include "qtape/core/printable.h"
#include "qtape/tflite/import.h"

namespace qtape::tool {
namespace {

std::string first_bytes(const std::string& path) {
  std::array<char, 8> bytes{};
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), std::ssize(bytes));
  return {bytes.data(), static_cast<size_t>(file.gcount())};
}

}  // namespace

AnyFile load_file(const std::string& path, NanValues nan) {
  if (!is_tflite(first_bytes(path))) return load_any(path, nan);
  std::vector<std::string> notes;
  IntegerProgram program = import_tflite(path, &notes);
  for (const std::string& each : notes) {
    fmt::print(stderr, "qtape: {}: {}\n", printable(path), each);
  }
  return program;
}

}  // namespace qtape::tool
