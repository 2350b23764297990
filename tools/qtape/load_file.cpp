#include "qtape/tools/qtape/load_file.h"

#include <fmt/format.h>

#include <cstdio>

#include "qtape/core/printable.h"
#include "qtape/engine/json_file.h"
#include "qtape/tflite/import.h"

namespace qtape::tool {

AnyFile load_file(const std::string& path, NanValues nan) {
  return read_text(path, [&](std::string_view text) -> AnyFile {
    if (!is_tflite(text)) return any_of(text, nan);
    std::vector<std::string> notes;
    IntegerProgram program = parse_tflite(text, &notes);
    for (const std::string& each : notes) {
      fmt::print(stderr, "qtape: {}: {}\n", printable(path), each);
    }
    return program;
  });
}

}  // namespace qtape::tool
