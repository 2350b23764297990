#include "qtape/engine/serialize.h"

#include <algorithm>
#include <cmath>

#include "qtape/core/float_environment.h"
#include "qtape/engine/json_file.h"

namespace qtape {
namespace {

/// Index of the first NaN in a parameter or a state, if there is one.
std::optional<int64_t> first_nan(const TensorType& type, const std::byte* data) {
  return dispatch_compute(type.dtype, [&]<class T>() -> std::optional<int64_t> {
    const T* first = reinterpret_cast<const T*>(data);
    const T* found =
        std::find_if(first, first + type.elements(), [](T x) { return std::isnan(x); });
    if (found == first + type.elements()) return std::nullopt;
    return found - first;
  });
}

constexpr std::string_view nan_text = "element {} is NaN, and NaN values were not requested";

/// Reads the values of the graph's leaves before any memory of their size is allocated.
std::map<std::string, Tensor> read_values(const JsonPlace& root, const Graph& graph,
                                          NanValues nan) {
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
    const auto wrong =
        nan == NanValues::Refuse ? first_nan(tensor.type, tensor.data.data()) : std::nullopt;
    if (wrong) value.fail(nan_text, *wrong);
    values.emplace(key, std::move(tensor));
  }
  for (const Node& node : graph.nodes()) {
    if (is_persistent(node.op) && !values.contains(node.label)) {
      place.fail("the value of '{}' {} is missing", printable(node.label),
                 to_string(node.type));
    }
  }
  return values;
}

void read_losses(const JsonPlace& place, Graph& graph) {
  const auto outputs = graph.outputs();
  const std::vector<NodeId> losses = read_ids<NodeId>(place);
  try {
    graph.set_outputs({outputs.begin(), outputs.end()}, losses);
  } catch (const GraphError& error) {
    place.fail("{}", error.what());
  }
}

Json write_setting(const Section::Setting& setting) {
  return std::visit([](const auto& each) { return Json(each); }, setting);
}

Section::Setting read_setting(const JsonPlace& place) {
  if (place.json.is_boolean()) return place.json.get<bool>();
  if (place.json.is_number_float()) return place.json.get<double>();
  if (place.json.is_string()) return place.json.get<std::string>();
  place.expect(place.json.is_number_integer(), "true, false, a number or a string");
  int64_t integer = 0;
  read_json(place, integer);
  return integer;
}

/// Creates an object with `write(value)` for each value. Json::operator[] would search all
/// existing keys for each key.
template <class Value, class Write>
Json write_map(const std::map<std::string, Value>& map, const Write& write) {
  Json::Object object;
  object.reserve(map.size());
  for (const auto& [key, value] : map) object.push_back({key, write(value)});
  return object;
}

/// Appends `"key"`, the separator and the value.
void append_entry(std::string& text, const std::string& key, std::string_view separator,
                  const Json& value) {
  Json(key).append_to(text);
  text += separator;
  value.append_to(text);
}

void append_section(std::string& text, const std::string& name, const Section& section) {
  for (const auto& [key, value] : section.settings) {
    const auto* number = std::get_if<double>(&value);
    require<FormatError>(number == nullptr || std::isfinite(*number),
                         "/sections/{}/settings/{}: {} cannot be represented in JSON",
                         json_pointer_part(name), json_pointer_part(key),
                         number == nullptr ? 0.0 : *number);
  }
  Json(name).append_to(text);
  text += ": {";
  append_entry(text, "kind", ":", section.kind);
  text += ',';
  append_entry(text, "settings", ":", write_map(section.settings, write_setting));
  text += ",\"tensors\":{";
  const char* separator = "";
  for (const auto& [key, tensor] : section.tensors) {
    text += separator;
    append_entry(text, key, ":", write_json(tensor));
    separator = ",";
  }
  text += "}}";
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

void refuse_nan(const Parameters& parameters) {
  for (const ParameterEntry& each : parameters.entries()) {
    const auto wrong = first_nan(each.type, each.value);
    if (!wrong) continue;
    fail<FormatError>("/values/{}: {}", json_pointer_part(each.name),
                      fmt::format(nan_text, *wrong));
  }
}

/// Returns about the number of characters of tensors as base64.
size_t text_size(const Parameters& parameters, const std::map<std::string, Section>& sections) {
  constexpr int64_t others = 256;
  int64_t size = 0;
  const auto add = [&](const TensorType& type) { size += (type.bytes() + 2) / 3 * 4 + others; };
  for (const ParameterEntry& each : parameters.entries()) add(each.type);
  for (const auto& [name, section] : sections) {
    for (const auto& [key, tensor] : section.tensors) add(tensor.type);
  }
  return static_cast<size_t>(size);
}

std::string model_text(const Graph& graph, const Parameters& parameters,
                       const std::map<std::string, Section>& sections) {
  std::string text = begin_file();
  append_lines(text, "nodes", '[', ']', graph.nodes(),
               [](std::string& to, const Node& node) { to += write_node(node).dump(); });
  text.reserve(text.size() + text_size(parameters, sections));
  text += ",\n\"outputs\": " + write_ids(graph.outputs());
  if (graph.states_losses()) text += ",\n\"losses\": " + write_ids(graph.losses());
  append_lines(text, "values", '{', '}', parameters.entries(),
               [&](std::string& to, const ParameterEntry& each) {
                 append_entry(to, each.name, ": ", write_json(parameters.get(each.name)));
               });
  if (!sections.empty()) {
    append_lines(text, "sections", '{', '}', sections, [](std::string& to, const auto& each) {
      append_section(to, each.first, each.second);
    });
  }
  text += "\n}\n";
  return text;
}

/// Throws GraphError unless `parameters` are those of the graph.
void require_values_of(const Graph& graph, const Parameters& parameters) {
  int64_t needed = 0;
  for (const Node& node : graph.nodes()) {
    if (!is_persistent(node.op)) continue;
    const ParameterEntry& entry = parameters.at(node.label);
    check(entry.type == node.type, "'{}' is {}, the graph needs {}", printable(node.label),
          to_string(entry.type), to_string(node.type));
    ++needed;
  }
  check(std::ssize(parameters.entries()) == needed,
        "the parameters have {} values, the graph needs {}", parameters.entries().size(),
        needed);
}

}  // namespace

std::string to_json(const Graph& graph, const Parameters& parameters,
                    const std::map<std::string, Section>& sections, NanValues nan) {
  require_values_of(graph, parameters);
  if (nan == NanValues::Refuse) refuse_nan(parameters);
  try {
    return model_text(graph, parameters, sections);
  } catch (const NotUtf8& error) {
    fail<FormatError>("/: the label, name or setting {}", error.what());
  }
}

SavedModel model_from_json(std::string_view text, NanValues nan) {
  const FloatEnvironment floats;
  const Json json = parse_document(text);
  const JsonPlace root{json};
  if (json.is_object() && json.contains("program")) {
    root.member("program").fail("the file holds an integer program, not a model");
  }
  check_header(root, {"nodes", "outputs", "losses", "values", "sections"});
  Graph graph;
  read_nodes<Op>(root, "nodes", graph);
  if (json.contains("losses")) read_losses(root.member("losses"), graph);
  const std::map<std::string, Tensor> values = read_values(root, graph, nan);
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
  const Json json = parse_document(text);
  Op op;
  read_json(JsonPlace{json}, op);
  return op;
}

void save_model(const std::string& path, const Graph& graph, const Parameters& parameters,
                const std::map<std::string, Section>& sections, NanValues nan) {
  during("writing", path, [&] {
    write_text(path, naming<FormatError>(
                         path, [&] { return to_json(graph, parameters, sections, nan); }));
  });
}

SavedModel load_model(const std::string& path, NanValues nan) {
  return read_text(path, [&](std::string_view text) { return model_from_json(text, nan); });
}

}  // namespace qtape
