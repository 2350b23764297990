#include "qtape/engine/json_file.h"

namespace qtape {
namespace {

constexpr int deepest_nesting = 64;

/// Refuses nesting that no file of ours has before it is built.
bool check_depth(int depth, Json::parse_event_t, Json&) {
  require<FormatError>(depth <= deepest_nesting, "/: nested deeper than {} levels",
                       deepest_nesting);
  return true;
}

}  // namespace

Json parse_file(std::string_view text) {
  try {
    return Json::parse(text, check_depth);
  } catch (const Json::parse_error& error) {
    fail<FormatError>("/: is not JSON: wrong or missing text at byte {}", error.byte);
  } catch (const Json::exception& error) {
    // Numbers out of range: the message names the number, after nlohmann's own "[id] " prefix.
    const std::string_view what = error.what();
    fail<FormatError>("/: is not JSON: {}",
                      what.substr(std::min(what.find("] ") + 2, what.size())));
  }
}

void check_keys(const JsonPlace& place, const std::set<std::string>& known) {
  place.expect(place.json.is_object(), "an object");
  for (const auto& [key, json] : place.json.items()) {
    if (known.contains(key)) continue;
    std::string expected;
    for (const std::string& each : known) expected += (expected.empty() ? "" : ", ") + each;
    place.child(key, json).fail("unknown key; expected one of {}", expected);
  }
}

void check_header(const JsonPlace& root, std::set<std::string> known) {
  known.insert({"format", "version"});
  check_keys(root, known);
  const JsonPlace format = root.member("format");
  format.expect(format.json == "qtape", "\"qtape\"");
  int64_t version = 0;
  read_json(root.member("version"), version);
  if (version != format_version) {
    root.member("version").fail("expected {}, got {}", format_version, version);
  }
}

std::string begin_file() {
  return fmt::format("{{\n\"format\": \"qtape\",\n\"version\": {}", format_version);
}

void append_lines(std::string& text, std::string_view name, char open, char close,
                  const std::vector<std::string>& lines) {
  text += fmt::format(",\n\"{}\": {}\n", name, open);
  for (size_t i = 0; i < lines.size(); ++i)
    text += lines[i] + (i + 1 < lines.size() ? ",\n" : "\n");
  text += close;
}

void write_text(const std::string& path, const std::string& text) {
  require<IoError>(static_cast<int64_t>(text.size()) <= largest_file,
                   "{}: it takes {} bytes as text, more than the limit of {}", path,
                   text.size(), largest_file);
  write_file(path, text);
}

std::vector<NodeId> read_ids(const JsonPlace& place) {
  std::vector<int32_t> indices;
  read_json(place, indices);
  std::vector<NodeId> ids;
  ids.reserve(indices.size());
  for (int32_t index : indices) ids.push_back(NodeId{index});
  return ids;
}

std::string write_ids(std::span<const NodeId> ids) {
  Json json = Json::array();
  for (NodeId id : ids) json.push_back(id.index);
  return json.dump();
}

}  // namespace qtape
