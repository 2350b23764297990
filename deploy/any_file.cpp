#include "qtape/deploy/any_file.h"

#include "qtape/engine/json_file.h"

namespace qtape {

bool holds_program(std::string_view text) {
  const std::string key = first_key(text, {"requantization", "program", "nodes", "values"});
  return key == "requantization" || key == "program";
}

AnyFile any_of(std::string_view text, NanValues nan) {
  if (holds_program(text)) return program_from_json(text);
  return model_from_json(text, nan);
}

AnyFile load_any(const std::string& path, NanValues nan) {
  return read_text(path, [nan](std::string_view text) { return any_of(text, nan); });
}

}  // namespace qtape
