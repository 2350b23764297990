#include "qtape/engine/serialize.h"

#include "qtape/engine/json_file.h"

namespace qtape {
namespace {

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

std::string entry(const std::string& key, const Json& value) {
  return Json(key).dump() + ": " + value.dump();
}

std::string model_text(const Graph& graph, const Parameters& parameters,
                       const std::map<std::string, Section>& sections) {
  std::string text = begin_file();
  std::vector<std::string> lines;
  for (const Node& node : graph.nodes()) lines.push_back(write_node(node).dump());
  append_lines(text, "nodes", '[', ']', lines);
  text += ",\n\"outputs\": " + write_ids(graph.outputs());
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
  const Json json = parse_file(text);
  const JsonPlace root{json, ""};
  if (json.is_object() && json.contains("program")) {
    root.member("program").fail("the file holds an integer program, not a model");
  }
  check_header(root, {"nodes", "outputs", "values", "sections"});
  Graph graph;
  read_nodes<Op>(root, "nodes", graph);
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
  const Json json = parse_file(text);
  Op op;
  read_json(JsonPlace{json, ""}, op);
  return op;
}

void save_model(const std::string& path, const Graph& graph, const Parameters& parameters,
                const std::map<std::string, Section>& sections) {
  write_text(path, to_json(graph, parameters, sections));
}

Model load_model(const std::string& path) { return read_text(path, model_from_json); }

}  // namespace qtape
