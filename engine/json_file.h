// Common parts of all files of the format: limits, header, nodes and text layout. Included only
// by .cpp files.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/core/float_environment.h"
#include "qtape/core/out_of_memory.h"
#include "qtape/engine/graph.h"
#include "qtape/io/files.h"
#include "qtape/io/json_document.h"

namespace qtape {

inline constexpr int64_t format_version = 2;
inline constexpr int64_t max_file_bytes = int64_t{4} << 30;

/// Throws FormatError unless `root` is an object with format "qtape" and this version, and has
/// no keys other than `known` and these two.
void check_header(const JsonPlace& root, std::vector<std::string_view> known);
/// Throws FormatError unless `place` is an object and all its keys are `known`.
void check_keys(const JsonPlace& place, std::span<const std::string_view> known);
inline void check_keys(const JsonPlace& place, std::initializer_list<std::string_view> known) {
  check_keys(place, std::span(known.begin(), known.size()));
}

/// Returns the start of a file: `{`, the format and its version.
std::string begin_file();
/// Appends `"name": {`, one entry per line, `}`: readable, and suited to line-based tools.
/// `append` adds the text of an entry, so that no second copy of all entries exists.
template <class Entries, class Append>
void append_lines(std::string& text, std::string_view name, char open, char close,
                  const Entries& entries, const Append& append) {
  text += fmt::format(",\n\"{}\": {}", name, open);
  const char* separator = "\n";
  for (const auto& each : entries) {
    text += separator;
    append(text, each);
    separator = ",\n";
  }
  text += '\n';
  text += close;
}
/// Writes the text of a file. Throws IoError, also if the text exceeds the size that can be
/// read.
void write_text(const std::string& path, const std::string& text);
/// Returns `read` applied to the text of a file. Throws IoError, and FormatError with the path.
template <class Read>
auto read_text(const std::string& path, const Read& read) {
  const FloatEnvironment floats;
  return during("reading", path, [&] {
    const std::string text = read_file(path, max_file_bytes);
    return naming<FormatError>(path, [&] { return read(std::string_view(text)); });
  });
}

/// JSON of a node: `{"label", "op", "operands"}`.
template <class Node>
Json write_node(const Node& node) {
  Json json = Json::object();
  if (!node.label.empty()) json["label"] = node.label;
  json["op"] = write_json(node.op);
  if (node.operands.empty()) return json;
  Json operands = Json::array();
  for (const auto id : node.operands) operands.push_back(id.index);
  json["operands"] = std::move(operands);
  return json;
}

/// Reads an array of indices of nodes.
std::vector<int32_t> read_indices(const JsonPlace& place);
template <class Id>
std::vector<Id> read_ids(const JsonPlace& place) {
  std::vector<Id> ids;
  for (int32_t index : read_indices(place)) ids.push_back(Id{index});
  return ids;
}
std::string write_indices(std::span<const int32_t> indices);
template <class Ids>
std::string write_ids(const Ids& ids) {
  std::vector<int32_t> indices;
  for (const auto id : ids) indices.push_back(id.index);
  return write_indices(indices);
}

/// Reads a node written by write_node and adds it to `nodes`, a Graph or an IntegerProgram.
template <class Op, class Nodes>
void read_node(const JsonPlace& place, Nodes& nodes) {
  check_keys(place, {"label", "op", "operands"});
  Op op;
  read_json(place.member("op"), op);
  std::string label;
  if (place.json.contains("label")) read_json(place.member("label"), label);
  std::vector<typename Nodes::Id> operands;
  if (place.json.contains("operands"))
    operands = read_ids<typename Nodes::Id>(place.member("operands"));
  try {
    nodes.add(std::move(op), operands, std::move(label));
  } catch (const GraphError& error) {
    place.fail("{}", error.what());
  }
}

/// Reads the nodes under `key` and the outputs into `nodes`.
template <class Op, class Nodes>
void read_nodes(const JsonPlace& root, const std::string& key, Nodes& nodes) {
  const JsonPlace list = root.member(key);
  list.expect(list.json.is_array(), "an array");
  for (size_t i = 0; i < list.json.size(); ++i) read_node<Op>(list.element(i), nodes);
  if (!root.json.contains("outputs")) return;
  const JsonPlace outputs = root.member("outputs");
  try {
    nodes.set_outputs(read_ids<typename Nodes::Id>(outputs));
  } catch (const GraphError& error) {
    outputs.fail("{}", error.what());
  }
}

}  // namespace qtape
