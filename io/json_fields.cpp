#include "qtape/io/json_fields.h"

namespace qtape {
namespace {

constexpr size_t max_shown = 60;

}  // namespace

std::string json_pointer_part(std::string_view key) {
  std::string text;
  for (char c : printable(key)) text += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return text;
}

std::string JsonPlace::path() const {
  if (parent == nullptr) return "/";
  const std::string before = parent->parent == nullptr ? "" : parent->path();
  return parent->json.is_array() ? fmt::format("{}/{}", before, index)
                                 : fmt::format("{}/{}", before, json_pointer_part(key));
}

std::string JsonPlace::shown() const {
  if (json.is_object()) return "an object";
  if (json.is_array()) return "an array";
  const std::string text = json.dump(-1, JsonTexts::Ascii);
  if (text.size() <= max_shown) return text;
  return fmt::format("{}...", std::string_view(text).substr(0, max_shown));
}

}  // namespace qtape
