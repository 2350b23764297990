#include "qtape/onnx/import/importer.h"

#include <fmt/format.h>

#include <algorithm>

#include "qtape/engine/labels.h"
#include "qtape/onnx/import/operators.h"

namespace qtape {
namespace {

/// Returns the extents [n, c, ...] as [n, ..., c].
std::vector<int64_t> channels_behind(const std::vector<int64_t>& shape) {
  std::vector<int64_t> result = shape;
  std::rotate(result.begin() + 1, result.begin() + 2, result.end());
  return result;
}

/// Returns the path of the module in a node's name: `layer1.0.conv1` for
/// `/layer1/layer1.0/conv1/Conv`, where a part repeats the one before it.
std::string module_of(const OnnxNode& node) {
  std::vector<std::string> parts;
  std::string part;
  for (const char c : node.name() + "/") {
    if (c != '/') {
      part += c;
      continue;
    }
    if (!parts.empty() && part.starts_with(parts.back() + ".")) parts.pop_back();
    if (!part.empty()) parts.push_back(part);
    part.clear();
  }
  if (parts.empty() || !parts.back().starts_with(node.type())) return {};
  parts.pop_back();
  return fmt::format("{}", fmt::join(parts, "."));
}

}  // namespace

int onnx_axis(int64_t axis, int rank) {
  require<FormatError>(axis >= -rank && axis < rank, "axis {} is out of range for rank {}",
                       onnx_number(axis), rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

int64_t onnx_product(int64_t a, int64_t b) {
  require<FormatError>(a >= 0 && b >= 0, "extent {} is not a valid number of elements",
                       onnx_number(std::min(a, b)));
  require<FormatError>(b == 0 || a <= Shape::max_elements / b,
                       "extents {} and {} exceed the largest tensor", a, b);
  return a * b;
}

std::string onnx_number(int64_t number) {
  return number == onnx_batch ? "batch" : fmt::format("{}", number);
}

std::string extents_text(const std::vector<int64_t>& extents) {
  std::vector<std::string> texts;
  for (const int64_t each : extents) texts.push_back(onnx_number(each));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

void OnnxImporter::add_constant(const std::string& name, OnnxConstant constant) {
  spend(constant.shape.elements());
  constants_[name] = std::move(constant);
}

void OnnxImporter::spend(int64_t elements) {
  require<FormatError>(elements <= elements_left_,
                       "the constants that nodes compute are too large for the file");
  elements_left_ -= elements;
}

void OnnxImporter::add_tensor(const onnx::TensorProto& tensor) {
  try {
    add_constant(tensor.name(), read_constant(tensor));
  } catch (const Error& error) {
    refuse_tensor(tensor.name(), error.what());
  }
}

void OnnxImporter::refuse_tensor(const std::string& name, const std::string& reason) {
  problems_.add("", reason);
  unknown_.insert(name);
}

const OnnxConstant* OnnxImporter::find_constant(const std::string& name) const {
  const auto found = constants_.find(name);
  return found == constants_.end() ? nullptr : &found->second;
}

bool OnnxImporter::reads_constants(const OnnxNode& node) const {
  for (int k = 0; k < node.inputs(); ++k) {
    if (has_input(node, k) && !is_constant(node.input(k))) return false;
  }
  return true;
}

void OnnxImporter::declare(const onnx::ValueInfoProto& value) {
  const auto& type = value.type().tensor_type();
  if (type.elem_type() != onnx::TensorProto::FLOAT || type.shape().dim_size() < 1) return;
  std::vector<int64_t> shape = {1};
  for (int k = 1; k < type.shape().dim_size(); ++k) {
    shape.push_back(type.shape().dim(k).dim_value());
    if (shape.back() < 1) return;
  }
  declared_[value.name()] = std::move(shape);
}

void OnnxImporter::add_input(const onnx::ValueInfoProto& input, bool one_axis) {
  const auto& type = input.type().tensor_type();
  const std::string place = fmt::format("input '{}'", printable(input.name()));
  unknown_.insert(input.name());
  if (!input.type().has_tensor_type() || !type.has_shape() || type.shape().dim_size() < 1) {
    return problems_.add(place, "expected a tensor with a shape");
  }
  if (type.elem_type() != onnx::TensorProto::FLOAT) {
    return problems_.add(place, fmt::format("expected floats, got type {}", type.elem_type()));
  }
  OnnxValue value{.id = {}, .shape = {1}};
  for (int k = 1; k < type.shape().dim_size(); ++k) {
    const auto& extent = type.shape().dim(k);
    if (!extent.has_dim_value() || extent.dim_value() < 1) {
      return problems_.add(
          place, fmt::format("extent {} must be a number, got '{}'", k,
                             extent.has_dim_value() ? fmt::format("{}", extent.dim_value())
                                                    : printable(extent.dim_param())));
    }
    value.shape.push_back(extent.dim_value());
  }
  one_axis_ = one_axis;
  std::vector<int64_t> extents = value.shape;
  if (value.rank() == 4 || (value.rank() == 3 && one_axis)) {
    value.layout = OnnxLayout::ChannelsLast;
    extents = channels_behind(value.shape);
  }
  try {
    value.id = add(Input{.shape = Shape(extents)}, {}, free_label(input.name()));
  } catch (const Error& error) {
    return problems_.add(place, error.what());
  }
  unknown_.erase(input.name());
  declared_batch_ = type.shape().dim(0).dim_value();
  values_[input.name()] = std::move(value);
}

void OnnxImporter::add_node(int64_t index, const OnnxNode& node) {
  std::vector<std::string> reasons;
  bool refused = true;
  try {
    read(node, reasons);
    refused = !reasons.empty();
  } catch (const OnnxUnknown&) {
  } catch (const OnnxRefused&) {
  } catch (const Error& error) {
    reasons.emplace_back(error.what());
  }
  if (!refused) return;
  if (!reasons.empty()) problems_.add(index, node, fmt::format("{}", fmt::join(reasons, ", ")));
  stand_in(node);
}

void OnnxImporter::stand_in(const OnnxNode& node) {
  for (int k = 0; k < node.outputs(); ++k) stand_in(node.output(k));
  const auto first = values_.find(node.input(0));
  const bool known = first != values_.end() && onnx_keeps_shape(node.type());
  if (!known || values_.contains(node.output(0))) return;
  const OnnxValue value = first->second;
  values_[node.output(0)] = value;
  unknown_.erase(node.output(0));
}

void OnnxImporter::read(const OnnxNode& node, std::vector<std::string>& reasons) {
  OnnxOperators{*this, node, reasons}.run();
  for (const std::string& each : node.unread_attributes()) {
    reasons.push_back(fmt::format("attribute {} is not supported", printable(each)));
  }
  for (int k = 0; k < node.outputs(); ++k) {
    const std::string& name = node.output(k);
    if (!needed_.contains(name) || values_.contains(name) || is_constant(name)) continue;
    reasons.push_back(fmt::format("output {}, '{}', is not supported", k, printable(name)));
  }
}

void OnnxImporter::stand_in(const std::string& name) {
  values_.erase(name);
  constants_.erase(name);
  unknown_.insert(name);
  const auto declared = declared_.find(name);
  if (declared == declared_.end()) return;
  try {
    const Shape shape(declared->second);
    values_[name] = {.id = add(Input{.shape = shape}, {}, free_label(name)),
                     .shape = declared->second};
    unknown_.erase(name);
  } catch (const Error&) {
    // If the shape is too large for a tensor, the value stays unknown.
  }
}

Graph OnnxImporter::finish(const std::vector<std::string>& outputs) {
  std::vector<NodeId> ids;
  for (const std::string& name : outputs) {
    const auto found = values_.find(name);
    if (found == values_.end()) {
      if (unknown_.contains(name)) continue;
      problems_.add(fmt::format("output '{}'", printable(name)),
                    is_constant(name) ? "it is a constant" : "no node computes it");
      continue;
    }
    OnnxValue value = found->second;
    const bool image = value.rank() == 4 || (value.rank() == 3 && one_axis_);
    if (value.layout == OnnxLayout::Flat || !image) value = to_same(value);
    ids.push_back(named_output(value.id, name));
  }
  problems_.settle();
  graph_.set_outputs(std::move(ids), {});  // ONNX declares no losses
  return std::move(graph_);
}

NodeId OnnxImporter::named_output(NodeId value, const std::string& name) {
  const bool usable = !name.empty() && printable(name) == name && !graph_.find(name);
  // The operand of a final Softmax becomes the answer, see with_loss.
  const Op& op = graph_[value].op;
  const bool softmax =
      std::holds_alternative<Softmax>(op) || std::holds_alternative<LogSoftmax>(op);
  if (!usable || softmax) return value;
  const auto extents = graph_[value].type.shape.extents();
  std::vector<int64_t> shape(extents.begin(), extents.end());
  if (!shape.empty()) shape[0] = -1;
  return add(Reshape{.shape = std::move(shape)}, {value}, name);
}

OnnxValue OnnxImporter::value(const OnnxNode& node, int k) const {
  const std::string name = node.input(k);
  const auto found = values_.find(name);
  if (found != values_.end()) return found->second;
  if (unknown_.contains(name)) throw OnnxUnknown();
  require<FormatError>(!name.empty(), "input {} is missing", k);
  require<FormatError>(!is_constant(name), "input {}, '{}', is a constant", k, printable(name));
  fail<FormatError>("input {}, '{}', is not computed by any preceding node", k,
                    printable(name));
}

const OnnxConstant& OnnxImporter::constant(const OnnxNode& node, int k) const {
  const std::string name = node.input(k);
  const auto found = constants_.find(name);
  if (unknown_.contains(name)) throw OnnxUnknown();
  require<FormatError>(found != constants_.end(), "input {}, '{}', must be a constant", k,
                       printable(name));
  return found->second;
}

std::vector<float> OnnxImporter::floats(const OnnxNode& node, int k, int64_t count) const {
  const OnnxConstant& found = constant(node, k);
  require<FormatError>(found.is_float && static_cast<int64_t>(found.floats.size()) == count,
                       "input {}, '{}', must hold {} floats", k, printable(node.input(k)),
                       count);
  return found.floats;
}

std::vector<int64_t> OnnxImporter::integers(const OnnxNode& node, int k) const {
  const OnnxConstant& found = constant(node, k);
  require<FormatError>(!found.is_float && found.shape.rank() <= 1,
                       "input {}, '{}', must hold integers of rank 0 or 1", k,
                       printable(node.input(k)));
  return found.integers;
}

std::optional<std::vector<int64_t>> OnnxImporter::integers_or(const OnnxNode& node,
                                                              const char* name, int k) const {
  if (node.has(name)) return node.integers(name);
  if (!has_input(node, k)) return std::nullopt;
  return integers(node, k);
}

void OnnxImporter::give(const OnnxNode& node, OnnxValue value, int k) {
  values_[node.output(k)] = std::move(value);
}

NodeId OnnxImporter::add(Op op, std::vector<NodeId> operands, std::string label) {
  return graph_.add(std::move(op), operands, std::move(label));
}

std::string OnnxImporter::free_label(const std::string& wanted) const {
  // Labels with unprintable characters could not be saved.
  const bool usable = !wanted.empty() && printable(wanted) == wanted;
  return unused_label(graph_, usable ? wanted : "value");
}

std::string OnnxImporter::layer_label(const OnnxNode& node) const {
  const std::string suffix = ".weight";
  const std::string weight = node.input(1);
  const std::string label = weight.ends_with(suffix)
                                ? weight.substr(0, weight.size() - suffix.size())
                                : module_of(node);
  const bool usable = !label.empty() && printable(label) == label && !graph_.find(label);
  return usable ? label : std::string();
}

std::string OnnxImporter::node_label(const OnnxNode& node, const std::string& part) const {
  const std::string module = module_of(node);
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
