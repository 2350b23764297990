#include "qtape/onnx/import/module_paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "qtape/core/error.h"
#include "qtape/core/nearest.h"
#include "qtape/core/printable.h"

namespace qtape {

std::string module_of(const std::string& name, const std::string& type) {
  std::vector<std::string> parts;
  std::string part;
  for (const char c : name + "/") {
    if (c != '/') {
      part += c;
      continue;
    }
    if (!parts.empty() && part.starts_with(parts.back() + ".")) parts.pop_back();
    if (!part.empty()) parts.push_back(part);
    part.clear();
  }
  if (parts.empty() || !parts.back().starts_with(type)) return {};
  parts.pop_back();
  return fmt::format("{}", fmt::join(parts, "."));
}

std::string lower_case(std::string_view name) {
  std::string text(name);
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::string layer_kind(const std::string& type) {
  if (type.starts_with("Conv")) return "conv";
  if (type == "Gemm" || type == "MatMul") return "linear";
  return type.ends_with("Normalization") ? "norm" : lower_case(type);
}

void end_at(onnx::GraphProto& graph, const std::vector<std::string>& names) {
  // Values come before nodes, and these before modules, of which the last node counts.
  std::map<std::string, std::string> values, nodes, modules;
  for (const onnx::NodeProto& node : graph.node()) {
    for (const std::string& each : node.output()) {
      if (!each.empty()) values.emplace(each, each);
    }
    if (node.output_size() == 0 || node.output(0).empty()) continue;
    nodes.emplace(node.name(), node.output(0));
    // A module holds the nodes of the modules in it.
    const std::string path = module_of(node.name(), node.op_type());
    for (size_t end = path.find('.'); end != std::string::npos; end = path.find('.', end + 1)) {
      modules[path.substr(0, end)] = node.output(0);
    }
    modules[path] = node.output(0);
  }
  nodes.erase("");
  modules.erase("");
  graph.clear_output();
  for (const std::string& name : names) {
    const std::string* found = nullptr;
    for (const auto* each : {&values, &nodes, &modules}) {
      const auto at = each->find(name);
      if (found == nullptr && at != each->end()) found = &at->second;
    }
    if (found == nullptr) {
      std::vector<std::string> known;
      for (const auto* each : {&nodes, &modules, &values}) {
        for (const auto& [key, value] : *each) known.push_back(key);
      }
      fail<FormatError>("output '{}': no node, module or value has this name{}",
                        printable(name), nearest_hint(name, known));
    }
    graph.add_output()->set_name(*found);
  }
}

}  // namespace qtape
