#include "qtape/engine/json_file.h"

#include <algorithm>

namespace qtape {
namespace {

[[noreturn]] void fail_unknown_key(const JsonPlace& place,
                                   std::vector<std::string_view> known) {
  std::ranges::sort(known);
  std::string expected;
  for (std::string_view each : known) {
    expected += expected.empty() ? "" : ", ";
    expected += each;
  }
  place.fail("unknown key; expected one of {}", expected);
}

}  // namespace

void check_keys(const JsonPlace& place, std::span<const std::string_view> known) {
  place.expect(place.json.is_object(), "an object");
  for (const auto& [key, json] : place.json.items()) {
    if (std::ranges::find(known, key) == known.end()) {
      fail_unknown_key(place.child(key, json), {known.begin(), known.end()});
    }
  }
}

void check_header(const JsonPlace& root, std::vector<std::string_view> known) {
  root.expect(root.json.is_object(), "an object");
  // The version is checked first, so that a file of another version is rejected for its version
  // rather than for its contents.
  const JsonPlace format = root.member("format");
  format.expect(format.json == "qtape", "\"qtape\"");
  int64_t version = 0;
  read_json(root.member("version"), version);
  if (version != format_version) {
    root.member("version").fail("expected {}, got {}", format_version, version);
  }
  known.insert(known.end(), {"format", "version"});
  check_keys(root, known);
}

std::string begin_file() {
  return fmt::format("{{\n\"format\": \"qtape\",\n\"version\": {}", format_version);
}

void write_text(const std::string& path, const std::string& text) {
  require<IoError>(static_cast<int64_t>(text.size()) <= max_file_bytes,
                   "{}: it takes {} bytes as text, more than the limit of {}", path,
                   text.size(), max_file_bytes);
  write_file(path, text);
}

std::vector<int32_t> read_indices(const JsonPlace& place) {
  std::vector<int32_t> indices;
  read_json(place, indices);
  return indices;
}

std::string write_indices(std::span<const int32_t> indices) {
  Json json = Json::array();
  for (int32_t index : indices) json.push_back(index);
  return json.dump();
}

}  // namespace qtape
