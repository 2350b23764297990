#include "qtape/deploy/any_file.h"

#include "qtape/engine/json_file.h"

namespace qtape {

bool holds_program(std::string_view text) {
  const std::string key = first_key(text, {"requantization", "program", "nodes", "values"});
  return key == "requantization" || key == "program";
}

AnyFile load_any(const std::string& path, NanValues nan) {
  return read_text(path, [nan](std::string_view text) -> AnyFile {
    if (holds_program(text)) return program_from_json(text);
    return model_from_json(text, nan);
  });
}

}  // namespace qtape
