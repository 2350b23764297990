#include "qtape/onnx/importer.h"

#include <fmt/format.h>

#include <algorithm>

#include "qtape/engine/labels.h"
#include "qtape/onnx/operators.h"

namespace qtape {
namespace {

int64_t product(std::span<const int64_t> extents) {
  int64_t result = 1;
  for (const int64_t each : extents) result *= each;
  return result;
}

/// [n, c, ...] as [n, ..., c].
std::vector<int64_t> channels_behind(const std::vector<int64_t>& shape) {
  std::vector<int64_t> result = shape;
  std::rotate(result.begin() + 1, result.begin() + 2, result.end());
  return result;
}

/// What brings [n, ..., c] to [n, c, ...], and back.
std::vector<int> channels_first(int rank) {
  std::vector<int> permutation = {0, rank - 1};
  for (int axis = 1; axis + 1 < rank; ++axis) permutation.push_back(axis);
  return permutation;
}

std::vector<int> channels_last(int rank) {
  std::vector<int> permutation = {0};
  for (int axis = 2; axis < rank; ++axis) permutation.push_back(axis);
  permutation.push_back(1);
  return permutation;
}

}  // namespace

int onnx_axis(int64_t axis, int rank) {
  require<FormatError>(axis >= -rank && axis < rank, "axis {} is out of range for rank {}",
                       axis, rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

int64_t onnx_product(int64_t a, int64_t b) {
  require<FormatError>(a >= 0 && b >= 0 && (b == 0 || a <= Shape::max_elements / b),
                       "extents {} and {} are beyond any tensor", a, b);
  return a * b;
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

void OnnxImporter::add_input(const std::string& name, const std::vector<int64_t>& shape,
                             int64_t declared, bool channels_last) {
  OnnxValue value{.id = {}, .shape = shape};
  std::vector<int64_t> extents = shape;
  if (channels_last) {
    value.layout = OnnxLayout::ChannelsLast;
    extents = channels_behind(shape);
  }
  declared_batch_ = declared;
  value.id = add(Input{.shape = Shape(extents)}, {}, free_label(name));
  values_[name] = std::move(value);
}

void OnnxImporter::add_node(const OnnxNode& node) { OnnxOperators{*this, node}.run(); }

Graph OnnxImporter::finish(const std::vector<std::string>& outputs) {
  std::vector<NodeId> ids;
  for (const std::string& name : outputs) {
    const auto found = values_.find(name);
    require<FormatError>(found != values_.end(), "output '{}': no node computes it",
                         printable(name));
    OnnxValue value = found->second;
    if (value.layout == OnnxLayout::Flat) value = to_same(value);
    ids.push_back(value.id);
  }
  graph_.set_outputs(std::move(ids));
  return std::move(graph_);
}

OnnxValue OnnxImporter::value(const OnnxNode& node, int k) const {
  const std::string name = node.input(k);
  const auto found = values_.find(name);
  if (found != values_.end()) return found->second;
  require<FormatError>(!name.empty(), "input {} is missing", k);
  require<FormatError>(!is_constant(name), "input {}, '{}', is a constant", k, printable(name));
  fail<FormatError>("input {}, '{}', is computed by no node before", k, printable(name));
}

const OnnxConstant& OnnxImporter::constant(const OnnxNode& node, int k) const {
  const std::string name = node.input(k);
  const auto found = constants_.find(name);
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
                       "input {}, '{}', must be whole numbers in a row", k,
                       printable(node.input(k)));
  return found.integers;
}

std::optional<std::vector<int64_t>> OnnxImporter::integers_or(const OnnxNode& node,
                                                              const char* name, int k) const {
  if (node.has(name)) return node.integers(name);
  if (!has_input(node, k)) return std::nullopt;
  return integers(node, k);
}

void OnnxImporter::give(const OnnxNode& node, OnnxValue value) {
  require<FormatError>(node.outputs() >= 1, "it has no outputs");
  values_[node.output(0)] = std::move(value);
}

NodeId OnnxImporter::add(Op op, std::vector<NodeId> operands, std::string label) {
  return graph_.add(std::move(op), operands, std::move(label));
}

std::string OnnxImporter::free_label(const std::string& wanted) const {
  // What cannot be printed as it is could not be saved either.
  const bool usable = !wanted.empty() && printable(wanted) == wanted;
  return unused_label(graph_, usable ? wanted : "value");
}

std::string OnnxImporter::layer_label(const std::string& weight) const {
  const std::string suffix = ".weight";
  if (!weight.ends_with(suffix)) return {};
  const std::string label = weight.substr(0, weight.size() - suffix.size());
  const bool usable = !label.empty() && printable(label) == label && !graph_.find(label);
  return usable ? label : std::string();
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
                                   std::vector<float> numbers) {
  Tensor tensor = Tensor::of<float>(shape, numbers);
  if (const auto known = known_parameter(name, tensor)) return *known;
  const NodeId id = add_leaf(Parameter{.shape = shape}, name, std::move(tensor));
  leaves_.emplace(name, id);
  return id;
}

// Nodes that move a state by themselves cannot share it.
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

int OnnxImporter::physical_axis(const OnnxValue& value, int64_t axis) {
  const int k = onnx_axis(axis, value.rank());
  if (value.layout != OnnxLayout::ChannelsLast || k == 0) return k;
  return k == 1 ? value.rank() - 1 : k - 1;
}

std::vector<size_t> OnnxImporter::flat_order(const std::vector<int64_t>& flat) {
  const int64_t channels = flat[0];
  const int64_t places = product(std::span(flat).subspan(1));
  std::vector<size_t> order;
  for (int64_t place = 0; place < places; ++place) {
    for (int64_t channel = 0; channel < channels; ++channel) {
      order.push_back(static_cast<size_t>(channel * places + place));
    }
  }
  return order;
}

OnnxValue OnnxImporter::to_same(OnnxValue value) {
  if (value.layout == OnnxLayout::Same) return value;
  if (value.layout == OnnxLayout::Flat) {
    std::vector<int64_t> extents = value.flat;
    std::rotate(extents.begin(), extents.begin() + 1, extents.end());
    extents.insert(extents.begin(), -1);
    NodeId id = add(Reshape{.shape = extents}, {value.id});
    id = add(Transpose{.permutation = channels_first(static_cast<int>(extents.size()))}, {id});
    id = add(Reshape{.shape = {-1, value.shape[1]}}, {id});
    return {.id = id, .shape = value.shape};
  }
  const NodeId id = add(Transpose{.permutation = channels_first(value.rank())}, {value.id});
  return {.id = id, .shape = value.shape};
}

OnnxValue OnnxImporter::to_channels_last(OnnxValue value) {
  require<FormatError>(value.rank() == 3 || value.rank() == 4,
                       "expected an input of rank 3 or 4, got rank {}", value.rank());
  if (value.layout == OnnxLayout::ChannelsLast) return value;
  const NodeId id = add(Transpose{.permutation = channels_last(value.rank())}, {value.id});
  return {.id = id, .shape = value.shape, .layout = OnnxLayout::ChannelsLast};
}

OnnxValue OnnxImporter::reshaped(const OnnxValue& from, const std::vector<int64_t>& shape) {
  const int64_t elements = product(std::span(from.shape).subspan(1));
  require<FormatError>(!shape.empty(), "reshaping to a scalar joins samples");
  std::vector<int64_t> extents = shape;
  for (size_t k = 1; k < extents.size(); ++k) {
    require<FormatError>(extents[k] != onnx_batch, "axis {} takes the batch extent", k);
    if (extents[k] == 0) {
      require<FormatError>(k < from.shape.size(), "extent {} is that of no axis", k);
      extents[k] = from.shape[k];
    }
  }
  const auto rest = std::span(extents).subspan(1);
  const auto open = std::ranges::count(rest, -1);
  const int64_t first = extents[0];
  const bool batch = first == onnx_batch || first == 0 || first == -1 ||
                     (declared_batch_ > 0 && first == declared_batch_);
  require<FormatError>(batch && open <= 1 && (open == 0 || first != -1),
                       "reshaping to [{}] does not keep samples apart", fmt::join(shape, ", "));
  int64_t known = 1;
  for (const int64_t each : rest) known = onnx_product(known, each == -1 ? 1 : each);
  require<FormatError>(known > 0 && elements % known == 0 && (open == 1 || known == elements),
                       "{} elements of a sample do not fit [{}]", elements,
                       fmt::join(shape, ", "));
  std::ranges::replace(extents.begin() + 1, extents.end(), int64_t{-1}, elements / known);
  extents[0] = 1;
  if (extents == from.shape) return from;
  std::vector<int64_t> target = extents;
  target[0] = -1;
  if (from.layout == OnnxLayout::ChannelsLast) {
    const std::vector<int64_t> sample(from.shape.begin() + 1, from.shape.end());
    const bool one_place = product(std::span(sample).subspan(1)) == 1;
    if (extents.size() == 2 || one_place) {
      OnnxValue result{.id = add(Reshape{.shape = target}, {from.id}), .shape = extents};
      if (!one_place) {
        result.layout = OnnxLayout::Flat;
        result.flat = sample;
      }
      return result;
    }
  }
  const OnnxValue same = to_same(from);
  return {.id = add(Reshape{.shape = target}, {same.id}), .shape = extents};
}

}  // namespace qtape
