#include "qtape/io/json_fields.h"

#include <algorithm>

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

namespace detail {
namespace {

[[noreturn]] void fail_unknown_attribute(const JsonPlace& place,
                                         std::span<const ReadMember> members,
                                         std::string_view owner) {
  if (members.empty()) place.fail("unknown attribute; {} has none", owner);
  std::string keys;
  for (const ReadMember& each : members) {
    keys += (keys.empty() ? "" : ", ") + std::string(each.key);
  }
  place.fail("unknown attribute; expected one of {}", keys);
}

}  // namespace

Json write_members(std::span<const WrittenMember> members) {
  Json::Object object;
  for (const WrittenMember& each : members) {
    if (!each.omitted) object.push_back({std::string(each.key), each.write(each.value)});
  }
  return object;
}

void read_members(const JsonPlace& place, std::span<const ReadMember> members,
                  std::string_view owner) {
  place.expect(place.json.is_object(), "an object");
  for (const auto& [key, json] : place.json.items()) {
    const JsonPlace child = place.child(key, json);
    const auto found = std::ranges::find(members, key, &ReadMember::key);
    if (found == members.end()) fail_unknown_attribute(child, members, owner);
    found->read(child, found->value);
  }
}

void read_alternative(const JsonPlace& place, std::span<const JsonAlternative> alternatives,
                      void* variant) {
  const bool tagged = place.json.is_object() && place.json.size() == 1;
  place.expect(place.json.is_string() || tagged, "a name or an object with one name");
  const std::string& name = tagged ? place.json.items().front().key : place.json.text();
  const auto found = std::ranges::find(alternatives, name, &JsonAlternative::name);
  if (found == alternatives.end()) {
    std::string names;
    for (const JsonAlternative& each : alternatives) {
      names += (names.empty() ? "" : ", ") + std::string(each.name);
    }
    place.fail("unknown value \"{}\"; expected one of {}", printable(name), names);
  }
  if (!tagged) return found->read(nullptr, variant);
  const JsonPlace child = place.child(name, place.json.items().front().value);
  found->read(&child, variant);
}

}  // namespace detail
}  // namespace qtape
