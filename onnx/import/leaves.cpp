// Constants that nodes read: labels, parameters, states and integers.
#include <fmt/format.h>

#include <algorithm>

#include "qtape/onnx/import/channels.h"
#include "qtape/onnx/import/importer.h"
#include "qtape/onnx/import/module_paths.h"
#include "qtape/onnx/import/quantized.h"

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

namespace {

/// Returns the name of a constant without what ONNX Runtime appends to that of dequantized
/// ones.
std::string without_ending(const std::string& name) {
  constexpr std::string_view ending = "_DequantizeLinear_Output";
  return name.ends_with(ending) ? name.substr(0, name.size() - ending.size()) : name;
}

}  // namespace

std::string OnnxImporter::layer_label(const OnnxNode& node) {
  const std::string suffix = ".weight";
  const std::string weight = without_ending(node.input(1));
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
  return with_quantizer(
      name, add_float_parameter(name, std::move(shape), std::move(numbers), layer, part));
}

void OnnxImporter::set_origin(const std::string& name, const std::string& of) {
  const auto origin = origins_.find(of);
  const std::string first = origin == origins_.end() ? of : origin->second;
  origins_.insert_or_assign(name, first);
}

NodeId OnnxImporter::add_float_parameter(const std::string& read_name, Shape shape,
                                         std::vector<float> numbers, const std::string& layer,
                                         std::string_view part) {
  // PyTorch writes a weight that two modules share once, and an Identity for the second.
  const auto origin = origins_.find(read_name);
  const std::string& name = origin == origins_.end() ? read_name : origin->second;
  Tensor tensor = Tensor::of<float>(shape, numbers);
  if (const auto known = known_parameter(name, tensor)) return *known;
  // PyTorch numbers computed constants: weights with a folded norm, and transposed ones.
  const bool numbered = name.find("::") != std::string::npos && !layer.empty();
  const std::string wanted =
      numbered ? fmt::format("{}.{}", layer, part) : without_ending(name);
  const NodeId id = add_leaf(Parameter{.shape = shape}, wanted, std::move(tensor));
  if (const auto other = leaves_.find(name); other != leaves_.end()) {
    notes_.push_back(fmt::format(
        "'{}' is read in different layouts: it becomes two parameters, '{}' and '{}', which "
        "train separately",
        printable(name), graph_[other->second].label, graph_[id].label));
  }
  leaves_.emplace(name, id);
  return id;
}

NodeId OnnxImporter::with_quantizer(const std::string& name, NodeId parameter) {
  const OnnxConstant* constant = find_constant(name);
  if (constant == nullptr || !constant->codes || constant->codes->of_sums()) return parameter;
  keep_codes(name);
  if (const auto known = quantizers_.find(parameter.index); known != quantizers_.end()) {
    return known->second;
  }
  OnnxCodes codes = *constant->codes;
  if (constant->is_centered) {
    codes.is_signed = true;
    std::ranges::fill(codes.zero_points, 0);
  }
  if (codes.block > 0) {
    return add_quantizer(parameter, codes, stored_blocks(name, *constant, parameter));
  }
  const Shape& shape = graph_[parameter].type.shape;
  const auto channels = std::ssize(codes.scales);
  require<FormatError>(channels == 1 || (shape.rank() > 0 && shape[0] == channels &&
                                         codes.axis == channels_axis(constant->shape.rank())),
                       "'{}' has scales along axis {}, expected one for each output channel",
                       printable(name), codes.axis);
  return add_quantizer(parameter, codes, {.shape = Shape{channels}});
}

NodeId OnnxImporter::add_quantizer(NodeId parameter, const OnnxCodes& codes,
                                   const OnnxBlocks& blocks) {
  const auto ordered = [&]<class T>(const std::vector<T>& numbers) {
    std::vector<float> result(numbers.begin(), numbers.end());
    return blocks.order ? blocks.order(result) : result;
  };
  const std::string label = graph_[parameter].label;
  const FakeQuantize op = quantizer_for(codes, blocks.axis);
  std::vector<NodeId> operands = {
      parameter, add_state(label + ".scale", blocks.shape, ordered(codes.scales))};
  if (op.scheme == Scheme::Affine) {
    operands.push_back(
        add_state(label + ".zero_point", blocks.shape, ordered(codes.zero_points)));
  }
  const NodeId quantizer = add(op, operands, free_label(label + ".quantized"));
  quantizers_.emplace(parameter.index, quantizer);
  return quantizer;
}

/// Returns how the scales of blocks of a constant lie in a parameter that holds its values.
/// Throws FormatError if the elements of a block do not lie along one axis.
OnnxBlocks OnnxImporter::stored_blocks(const std::string& name, const OnnxConstant& constant,
                                       NodeId parameter) const {
  const OnnxCodes& codes = *constant.codes;
  const Shape& stored = graph_[parameter].type.shape;
  const int rank = constant.shape.rank(), axis = channels_axis(rank);
  const bool by_columns = axis == 1 && rank == 2, filters = axis == 0 && rank > 2;
  const auto order = [=](const std::vector<float>& numbers, const std::vector<int64_t>& shape) {
    if (by_columns) return transposed(numbers, shape[0], shape[1]);
    int64_t places = 1;
    for (size_t k = 2; k < shape.size(); ++k) places *= shape[k];
    return filters ? channels_behind(numbers, shape[0], shape[1], places) : numbers;
  };
  OnnxBlocks blocks{.axis = codes.axis};
  if (by_columns) blocks.axis = 1 - codes.axis;
  if (filters && codes.axis > 0) blocks.axis = codes.axis == 1 ? rank - 1 : codes.axis - 1;
  const auto all = constant.shape.extents();
  std::vector<int64_t> extents(all.begin(), all.end());
  const auto values = parameters_.at(graph_[parameter].label).values<float>();
  require<FormatError>(
      stored.rank() == rank && std::ranges::equal(order(constant.floats, extents), values),
      "'{}' has scales of blocks, which only MatMul, Gemm and Conv of values "
      "that are not flattened images support",
      printable(name));
  extents[static_cast<size_t>(codes.axis)] /= codes.block;
  std::vector<int64_t> shape(stored.extents().begin(), stored.extents().end());
  shape[static_cast<size_t>(blocks.axis)] /= codes.block;
  blocks.shape = Shape(shape);
  blocks.order = [=](const std::vector<float>& numbers) { return order(numbers, extents); };
  return blocks;
}

int OnnxImporter::channels_axis(int rank) const {
  const std::string& type = current_->type();
  if (type == "Conv") return 0;
  if (type == "ConvTranspose") return 1;
  if (type == "MatMul") return rank - 1;
  if (type == "Gemm") return current_->integer("transB", 0) != 0 ? 0 : 1;
  return -1;
}

void OnnxImporter::note_codes(const std::vector<std::string>& outputs) {
  OnnxUnrounded unrounded;
  for (const auto& [name, constant] : constants_) {
    if (!constant.codes || constant.codes->of_sums() || kept_codes_.contains(name)) continue;
    if (!constant.unrounded.empty()) {
      unrounded.names.insert(constant.unrounded);
    } else if (constant.shape.elements() > 1) {
      notes_.push_back(
          fmt::format("'{}' becomes floats: a node that reads it has no quantizer for it",
                      printable(name)));
    }
  }
  if (!unrounded.names.empty()) throw unrounded;
  for (const std::string& name : outputs) {
    if (!coded_.contains(name)) continue;
    notes_.push_back(fmt::format("output '{}' becomes the floats that its codes represent",
                                 printable(name)));
  }
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

std::vector<int64_t> OnnxImporter::integers(const OnnxNode& node, int k) const {
  const OnnxConstant& found = constant(node, k);
  require<FormatError>(!found.is_float && found.shape.rank() <= 1,
                       "input {}, '{}', must hold integers of rank 0 or 1", k,
                       printable(node.input(k)));
  return found.integers;
}

int64_t OnnxImporter::integer(const OnnxNode& node, int k, int64_t fallback) const {
  if (!has_input(node, k)) return fallback;
  const std::vector<int64_t> numbers = integers(node, k);
  require<FormatError>(numbers.size() == 1, "input {} must be one integer, got {}", k,
                       numbers.size());
  return numbers[0];
}

std::optional<std::vector<int64_t>> OnnxImporter::integers_or(const OnnxNode& node,
                                                              const char* name, int k) const {
  if (node.has(name)) return node.integers(name);
  if (!has_input(node, k)) return std::nullopt;
  return integers(node, k);
}

}  // namespace qtape
