#include "qtape/engine/serialize.h"

#include <set>

#include "qtape/engine/files.h"
#include "qtape/engine/json_fields.h"

namespace qtape {
namespace {

constexpr int64_t format_version = 1;
constexpr int64_t largest_file = int64_t{4} << 30;
constexpr int deepest_nesting = 64;

/// Refuses nesting that no file of ours has before it is built.
bool check_depth(int depth, Json::parse_event_t, Json&) {
  require<FormatError>(depth <= deepest_nesting, "/: nested deeper than {} levels",
                       deepest_nesting);
  return true;
}

Json parse(std::string_view text) {
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

Json write_node(const Node& node) {
  Json json = Json::object();
  if (!node.label.empty()) json["label"] = node.label;
  json["op"] = write_json(node.op);
  if (!node.operands.empty()) {
    Json operands = Json::array();
    for (NodeId id : node.operands) operands.push_back(id.index);
    json["operands"] = std::move(operands);
  }
  return json;
}

std::vector<NodeId> read_ids(const JsonPlace& place) {
  std::vector<int32_t> indices;
  read_json(place, indices);
  std::vector<NodeId> ids;
  for (int32_t index : indices) ids.push_back(NodeId{index});
  return ids;
}

void read_node(const JsonPlace& place, Graph& graph) {
  check_keys(place, {"label", "op", "operands"});
  Op op;
  read_json(place.member("op"), op);
  std::string label;
  if (place.json.contains("label")) read_json(place.member("label"), label);
  std::vector<NodeId> operands;
  if (place.json.contains("operands")) operands = read_ids(place.member("operands"));
  try {
    graph.add(std::move(op), operands, std::move(label));
  } catch (const GraphError& error) {
    place.fail("{}", error.what());
  }
}

Graph read_graph(const JsonPlace& root) {
  Graph graph;
  const JsonPlace nodes = root.member("nodes");
  nodes.expect(nodes.json.is_array(), "an array");
  for (size_t i = 0; i < nodes.json.size(); ++i) read_node(nodes.element(i), graph);
  if (!root.json.contains("outputs")) return graph;
  const JsonPlace outputs = root.member("outputs");
  try {
    graph.set_outputs(read_ids(outputs));
  } catch (const GraphError& error) {
    outputs.fail("{}", error.what());
  }
  return graph;
}

/// Reads the values that the graph's leaves need, before anything of their size is allocated.
std::map<std::string, Tensor> read_values(const JsonPlace& root, const Graph& graph) {
  const JsonPlace place = root.member("values");
  place.expect(place.json.is_object(), "an object");
  std::map<std::string, Tensor> values;
  for (const auto& [key, json] : place.json.items()) {
    const JsonPlace value = place.child(key, json);
    const auto id = graph.find(key);
    if (!id || !is_persistent(graph[*id].op))
      value.fail("the graph has no parameter or state of this name");
    Tensor tensor;
    read_json(value, tensor);
    if (tensor.type != graph[*id].type) {
      value.fail("expected {}, got {}", to_string(graph[*id].type), to_string(tensor.type));
    }
    values.emplace(key, std::move(tensor));
  }
  for (const Node& node : graph.nodes()) {
    if (is_persistent(node.op) && !values.contains(node.label)) {
      place.fail("the value of '{}' {} is missing", node.label, to_string(node.type));
    }
  }
  return values;
}

Json write_setting(const Section::Setting& setting) {
  return std::visit([](const auto& each) { return Json(each); }, setting);
}

Section::Setting read_setting(const JsonPlace& place) {
  if (place.json.is_boolean()) return place.json.get<bool>();
  if (place.json.is_number_float()) return place.json.get<double>();
  if (place.json.is_string()) return place.json.get<std::string>();
  place.expect(place.json.is_number_integer(), "true, false, a number or a text");
  int64_t integer = 0;
  read_json(place, integer);
  return integer;
}

Json write_section(const std::string& name, const Section& section) {
  Json settings = Json::object();
  for (const auto& [key, value] : section.settings) {
    const auto* number = std::get_if<double>(&value);
    require<FormatError>(number == nullptr || std::isfinite(*number),
                         "/sections/{}/settings/{}: {} has no JSON", name, key,
                         number == nullptr ? 0.0 : *number);
    settings[key] = write_setting(value);
  }
  Json tensors = Json::object();
  for (const auto& [key, value] : section.tensors) tensors[key] = write_json(value);
  return {{"kind", section.kind},
          {"settings", std::move(settings)},
          {"tensors", std::move(tensors)}};
}

Section read_section(const JsonPlace& place) {
  check_keys(place, {"kind", "settings", "tensors"});
  Section section;
  read_json(place.member("kind"), section.kind);
  const JsonPlace settings = place.member("settings");
  settings.expect(settings.json.is_object(), "an object");
  for (const auto& [key, json] : settings.json.items()) {
    section.settings[key] = read_setting(settings.child(key, json));
  }
  const JsonPlace tensors = place.member("tensors");
  tensors.expect(tensors.json.is_object(), "an object");
  for (const auto& [key, json] : tensors.json.items()) {
    read_json(tensors.child(key, json), section.tensors[key]);
  }
  return section;
}

/// `"name": {` lines, one entry a line, `}`: readable and friendly to line-based tools.
void append_lines(std::string& text, std::string_view name, char open, char close,
                  const std::vector<std::string>& lines) {
  text += fmt::format(",\n\"{}\": {}\n", name, open);
  for (size_t i = 0; i < lines.size(); ++i)
    text += lines[i] + (i + 1 < lines.size() ? ",\n" : "\n");
  text += close;
}

std::string entry(const std::string& key, const Json& value) {
  return Json(key).dump() + ": " + value.dump();
}

std::string model_text(const Graph& graph, const Parameters& parameters,
                       const std::map<std::string, Section>& sections) {
  std::string text = fmt::format("{{\n\"format\": \"qtape\",\n\"version\": {}", format_version);
  std::vector<std::string> lines;
  for (const Node& node : graph.nodes()) lines.push_back(write_node(node).dump());
  append_lines(text, "nodes", '[', ']', lines);
  Json outputs = Json::array();
  for (NodeId id : graph.outputs()) outputs.push_back(id.index);
  text += ",\n\"outputs\": " + outputs.dump();
  lines.clear();
  for (const ParameterEntry& each : parameters.entries()) {
    lines.push_back(entry(each.name, write_json(parameters.get(each.name))));
  }
  append_lines(text, "values", '{', '}', lines);
  lines.clear();
  for (const auto& [name, section] : sections) {
    lines.push_back(entry(name, write_section(name, section)));
  }
  if (!lines.empty()) append_lines(text, "sections", '{', '}', lines);
  return text + "\n}\n";
}

}  // namespace

std::string to_json(const Graph& graph, const Parameters& parameters,
                    const std::map<std::string, Section>& sections) {
  try {
    return model_text(graph, parameters, sections);
  } catch (const Json::exception&) {
    fail<FormatError>("/: a label, a name or a text setting is not UTF-8");
  }
}

Model model_from_json(std::string_view text) {
  const Json json = parse(text);
  const JsonPlace root{json, ""};
  check_keys(root, {"format", "version", "nodes", "outputs", "values", "sections"});
  const JsonPlace format = root.member("format");
  format.expect(format.json == "qtape", "\"qtape\"");
  int64_t version = 0;
  read_json(root.member("version"), version);
  if (version != format_version) {
    root.member("version").fail("expected {}, got {}", format_version, version);
  }
  Graph graph = read_graph(root);
  const std::map<std::string, Tensor> values = read_values(root, graph);
  Parameters parameters(graph, 0);
  for (const auto& [name, tensor] : values) parameters.set(name, tensor);
  std::map<std::string, Section> sections;
  if (json.contains("sections")) {
    const JsonPlace place = root.member("sections");
    place.expect(place.json.is_object(), "an object");
    for (const auto& [name, section] : place.json.items()) {
      sections[name] = read_section(place.child(name, section));
    }
  }
  return {std::move(graph), std::move(parameters), std::move(sections)};
}

std::string to_json(const Op& op) { return write_json(op).dump(); }

Op op_from_json(std::string_view text) {
  const Json json = parse(text);
  Op op;
  read_json(JsonPlace{json, ""}, op);
  return op;
}

void save_model(const std::string& path, const Graph& graph, const Parameters& parameters,
                const std::map<std::string, Section>& sections) {
  const std::string text = to_json(graph, parameters, sections);
  require<IoError>(static_cast<int64_t>(text.size()) <= largest_file,
                   "{}: the model takes {} bytes as text, more than the limit of {}", path,
                   text.size(), largest_file);
  write_file(path, text);
}

Model load_model(const std::string& path) {
  const std::string text = read_file(path, largest_file);
  try {
    return model_from_json(text);
  } catch (const FormatError& error) {
    throw FormatError(path + ": " + error.what());
  }
}

}  // namespace qtape
