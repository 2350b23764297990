// Labels of imported nodes, and parameters and states from constants of the file.
#include <fmt/format.h>

#include "qtape/onnx/import/importer.h"
#include "qtape/onnx/import/module_paths.h"

namespace qtape {

std::string OnnxImporter::free_label(const std::string& wanted) const {
  // Labels with unprintable characters could not be saved.
  const bool usable = !wanted.empty() && printable(wanted) == wanted;
  const std::string label = usable ? wanted : "value";
  if (!graph_.find(label)) return label;
  // Labels stay, so that the search goes on where it ended.
  int64_t& number = numbers_.try_emplace(label, 2).first->second;
  while (graph_.find(fmt::format("{}.{}", label, number))) ++number;
  return fmt::format("{}.{}", label, number);
}

std::string OnnxImporter::layer_label(const OnnxNode& node) {
  const std::string suffix = ".weight";
  const std::string weight = node.input(1);
  const bool named = weight.ends_with(suffix);
  const std::string own = named ? weight.substr(0, weight.size() - suffix.size()) : "";
  for (const std::string& label : {own, module_of(node.name(), node.type())}) {
    const bool usable = !label.empty() && printable(label) == label && !graph_.find(label);
    if (usable) return label;
  }
  const std::string kind = layer_kind(node.type());
  std::string label;
  do {
    label = fmt::format("{}{}", kind, ++layers_[kind]);
  } while (graph_.find(label));
  return label;
}

std::string OnnxImporter::module_label(const OnnxNode& node) const {
  const std::string module = module_of(node.name(), node.type());
  return printable(module) == module ? module : std::string();
}

std::string OnnxImporter::node_label(const OnnxNode& node, const std::string& part) const {
  const std::string module = module_of(node.name(), node.type());
  return free_label(module.empty() ? part : module + "." + part);
}

std::optional<NodeId> OnnxImporter::known_parameter(const std::string& name,
                                                    const Tensor& tensor) const {
  const auto [first, last] = leaves_.equal_range(name);
  for (auto each = first; each != last; ++each) {
    if (parameters_.at(graph_[each->second].label) == tensor) return each->second;
  }
  return std::nullopt;
}

NodeId OnnxImporter::add_parameter(const std::string& name, Shape shape,
                                   std::vector<float> numbers, const std::string& layer,
                                   std::string_view part) {
  Tensor tensor = Tensor::of<float>(shape, numbers);
  if (const auto known = known_parameter(name, tensor)) return *known;
  // PyTorch numbers computed constants: weights with a folded norm, and transposed ones.
  const bool numbered = name.find("::") != std::string::npos && !layer.empty();
  const std::string wanted = numbered ? fmt::format("{}.{}", layer, part) : name;
  const NodeId id = add_leaf(Parameter{.shape = shape}, wanted, std::move(tensor));
  leaves_.emplace(name, id);
  return id;
}

// Nodes that update their state cannot share it.
NodeId OnnxImporter::add_state(const std::string& name, Shape shape,
                               std::vector<float> numbers) {
  return add_leaf(State{.shape = shape}, name, Tensor::of<float>(shape, numbers));
}

NodeId OnnxImporter::add_leaf(Op leaf, const std::string& name, Tensor tensor) {
  spend(tensor.type.elements());
  const std::string label = free_label(name);
  parameters_[label] = std::move(tensor);
  return add(std::move(leaf), {}, label);
}

}  // namespace qtape
