#include "qtape/onnx/import/importer.h"

#include <fmt/format.h>

#include <algorithm>

#include "qtape/engine/labels.h"
#include "qtape/onnx/import/module_paths.h"
#include "qtape/onnx/import/operators.h"

namespace qtape {
namespace {

/// Returns the extents [n, c, ...] as [n, ..., c].
std::vector<int64_t> extents_channels_last(const std::vector<int64_t>& shape) {
  std::vector<int64_t> result = shape;
  std::rotate(result.begin() + 1, result.begin() + 2, result.end());
  return result;
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

int64_t onnx_product(std::span<const int64_t> extents) {
  int64_t product = 1;
  for (const int64_t each : extents) product = onnx_product(product, each);
  return product;
}

bool onnx_fill(std::span<int64_t> extents, int64_t elements) {
  int64_t known = 1;
  for (const int64_t each : extents) known = onnx_product(known, each == -1 ? 1 : each);
  const auto open = std::ranges::find(extents, -1);
  if (open == extents.end()) return known == elements;
  if (known == 0 || elements % known != 0) return false;
  *open = elements / known;
  return std::ranges::find(extents, -1) == extents.end();
}

void OnnxImporter::add_constant(const std::string& name, OnnxConstant constant) {
  spend(constant.shape.elements());
  constants_[name] = std::move(constant);
}

void OnnxImporter::expect_room(int64_t elements) const {
  require<FormatError>(elements <= elements_left_,
                       "the constants that nodes compute are too large for the file");
}

void OnnxImporter::spend_steps(int64_t steps, int64_t each) {
  constexpr int64_t most = 1 << 15;
  const std::string besides = unrolled_ > 0 ? fmt::format(" besides {}", unrolled_) : "";
  require<FormatError>(steps <= (most - unrolled_) / each,
                       "its {} steps of {} nodes make {}{}, at most {} are supported: export "
                       "shorter sequences",
                       steps, each, onnx_product(steps, each), besides, most);
  unrolled_ += steps * each;
}

void OnnxImporter::spend(int64_t elements) {
  expect_room(elements);
  elements_left_ -= elements;
}

OnnxConstant OnnxImporter::read_tensor(const onnx::TensorProto& tensor) {
  if (!has_data_file(tensor)) return read_constant(tensor);
  const int64_t before = files_.bytes();
  const onnx::TensorProto inside = files_.with_data(tensor);
  elements_left_ += elements_for(files_.bytes() - before);
  return read_constant(inside);
}

void OnnxImporter::add_tensor(const onnx::TensorProto& tensor) {
  try {
    add_constant(tensor.name(), read_tensor(tensor));
  } catch (const Error& error) {
    if (!has_data_file(tensor)) return refuse_tensor(tensor.name(), error.what());
    problems_.add_tensor(tensor.name(), error.what());
    unknown_.insert(tensor.name());
  }
}

void OnnxImporter::refuse_tensor(const std::string& name, const std::string& reason) {
  problems_.add("", reason);
  unknown_.insert(name);
}

const OnnxConstant* OnnxImporter::find_constant(const std::string& name) const {
  const auto at = constants_.find(name);
  return at == constants_.end() ? nullptr : &at->second;
}

const OnnxValue* OnnxImporter::find_value(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
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

namespace {

/// Returns the text of a type of elements that inputs cannot have.
std::string unreadable_type(int type) {
  using Proto = onnx::TensorProto;
  const std::string& name = Proto::DataType_Name(static_cast<Proto::DataType>(type));
  const bool floats =
      type == Proto::FLOAT16 || type == Proto::BFLOAT16 || type == Proto::DOUBLE;
  return fmt::format("expected FLOAT, INT32 or INT64, got {}{}",
                     name.empty() ? fmt::format("type {}", type) : name,
                     floats ? ": export model.float()" : "");
}

std::string batch_note(const std::string& input, int axis) {
  return fmt::format(
      "{} has its samples along axis {} in the file: the model takes samples first", input,
      axis);
}

/// Appends the extents of an input, 1 for the batch. Returns why there are none, or nothing.
std::string read_extents(const onnx::TensorShapeProto& shape, int batch,
                         std::vector<int64_t>& extents) {
  for (int k = 0; k < shape.dim_size(); ++k) {
    const auto& extent = shape.dim(k);
    if (k != batch && (!extent.has_dim_value() || extent.dim_value() < 1)) {
      return fmt::format("extent {} must be a number, got '{}'", k,
                         extent.has_dim_value() ? fmt::format("{}", extent.dim_value())
                                                : printable(extent.dim_param()));
    }
    extents.push_back(k == batch ? 1 : extent.dim_value());
  }
  return {};
}

}  // namespace

void OnnxImporter::add_input(const onnx::ValueInfoProto& input, bool one_axis,
                             const std::set<std::string>& by_steps) {
  const auto& type = input.type().tensor_type();
  const std::string place = fmt::format("input '{}'", printable(input.name()));
  unknown_.insert(input.name());
  if (!input.type().has_tensor_type() || !type.has_shape() || type.shape().dim_size() < 1) {
    return problems_.add(place, "expected a tensor with a shape");
  }
  const bool integers = type.elem_type() == onnx::TensorProto::INT64 ||
                        type.elem_type() == onnx::TensorProto::INT32;
  if (type.elem_type() != onnx::TensorProto::FLOAT && !integers) {
    return problems_.add(place, unreadable_type(type.elem_type()));
  }
  OnnxValue value{.id = {}, .shape = {}};
  value.batch = onnx_batch_axis(input, by_steps);
  const std::string open = read_extents(type.shape(), value.batch, value.shape);
  if (!open.empty()) return problems_.add(place, open);
  one_axis_ = one_axis;
  std::vector<int64_t> extents = value.shape;
  std::rotate(extents.begin(), extents.begin() + value.batch,
              extents.begin() + value.batch + 1);
  if (!integers && value.batch == 0 && (value.rank() == 4 || (value.rank() == 3 && one_axis))) {
    value.layout = OnnxLayout::ChannelsLast;
    extents = extents_channels_last(value.shape);
  }
  const DType dtype = integers ? DType::S32 : DType::F32;
  try {
    value.id =
        add(Input{.dtype = dtype, .shape = Shape(extents)}, {}, free_label(input.name()));
  } catch (const Error& error) {
    return problems_.add(place, error.what());
  }
  if (value.batch != 0) notes_.push_back(batch_note(place, value.batch));
  unknown_.erase(input.name());
  require_batch(place, type.shape().dim(value.batch).dim_value());
  values_[input.name()] = std::move(value);
}

void OnnxImporter::add_node(int64_t index, const OnnxNode& node) {
  if (const onnx::GraphProto* branch = selected_branch(node)) {
    return add_branch(index, node, *branch);
  }
  std::vector<std::string> reasons;
  if (attempt(node, reasons) || add_with_one_row(node) || add_with_samples(node)) return;
  refuse_node(index, node, fmt::format("{}", fmt::join(reasons, ", ")));
}

bool OnnxImporter::add_if_supported(const OnnxNode& node) {
  std::vector<std::string> reasons;
  if (attempt(node, reasons)) return true;
  for (int k = 0; k < node.outputs(); ++k) values_.erase(node.output(k));
  return false;
}

bool OnnxImporter::attempt(const OnnxNode& node, std::vector<std::string>& reasons) {
  bool unknown = false;
  current_ = &node;
  try {
    read(node, reasons);
  } catch (const OnnxUnknown&) {
    unknown = true;
  } catch (const OnnxRefused&) {
  } catch (const OnnxMixedSamples& error) {
    constexpr const char* hidden =
        "; the batch of 1 hides this: export with dynamic_axes for the axis of the samples";
    reasons.push_back(fmt::format("{}{}", error.what(), declared_batch_ == 1 ? hidden : ""));
  } catch (const Error& error) {
    reasons.emplace_back(error.what());
  }
  current_ = nullptr;
  if (unknown && reasons.empty()) stand_in(node);
  return reasons.empty();
}

void OnnxImporter::refuse_node(int64_t index, const OnnxNode& node, const std::string& reason) {
  problems_.add(index, node, reason);
  stand_in(node);
}

void OnnxImporter::stand_in(const OnnxNode& node) {
  for (int k = 0; k < node.outputs(); ++k) stand_in(node.output(k));
  const auto first = values_.find(node.input(0));
  // A value cannot stand in for codes, which only their own quantizer reads.
  const bool known = first != values_.end() && onnx_keeps_shape(node.type()) &&
                     !coded_.contains(node.output(0));
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
    OnnxValue value = settled(found->second);
    if (value.steps > 0) {
      problems_.add(fmt::format("output '{}'", printable(name)),
                    "its rows are the steps of all samples: reshape it to steps and samples");
      continue;
    }
    // Answers are floats.
    if (!is_float(graph_[value.id].type.dtype)) value.id = add(Cast{}, {value.id});
    const bool image = value.rank() == 4 || (value.rank() == 3 && one_axis_);
    if (value.layout == OnnxLayout::Flat || !image) value = to_same(value);
    ids.push_back(named_output(value.id, name));
  }
  if (problems_.empty()) note_codes(outputs);
  problems_.settle();
  graph_.set_outputs(std::move(ids), {});  // ONNX declares no losses
  return std::move(graph_);
}

NodeId OnnxImporter::named_output(NodeId value, const std::string& name) {
  if (!name.empty() && graph_[value].label == name) return value;
  const auto extents = graph_[value].type.shape.extents();
  std::vector<int64_t> shape(extents.begin(), extents.end());
  if (!shape.empty()) shape[0] = -1;
  return add(Reshape{.shape = std::move(shape)}, {value}, free_label(name));
}

OnnxValue OnnxImporter::value(const OnnxNode& node, int k) {
  const OnnxValue found = settled(moved_value(node, k));
  values_[node.input(k)] = found;
  return found;
}

const OnnxValue& OnnxImporter::moved_value(const OnnxNode& node, int k) const {
  const std::string name = node.input(k);
  const auto found = values_.find(name);
  if (found != values_.end()) return found->second;
  if (unknown_.contains(name)) throw OnnxUnknown();
  require<FormatError>(!name.empty(), "input {} is missing", k);
  require<FormatError>(
      !is_constant(name),
      "input {}, '{}', is a constant, expected a value that depends on an input of the model: export the result of this node as a constant, such as a buffer of PyTorch",
      k, printable(name));
  fail<FormatError>("input {}, '{}', is not computed by any preceding node", k,
                    printable(name));
}

const OnnxConstant& OnnxImporter::constant(const OnnxNode& node, int k) const {
  const std::string name = node.input(k);
  const auto found = constants_.find(name);
  if (unknown_.contains(name)) throw OnnxUnknown();
  require<FormatError>(found != constants_.end(), "input {}, '{}', must be a constant", k,
                       printable(name));
  require<FormatError>(!found->second.unknown && repeats_for_samples(node, found->second),
                       "input {}, '{}', depends on the number of samples", k, printable(name));
  return found->second;
}

bool OnnxImporter::repeats_for_samples(const OnnxNode& node,
                                       const OnnxConstant& constant) const {
  constexpr std::string_view recurrent[] = {"GRU", "LSTM", "RNN"};
  constexpr std::string_view pointwise[] = {"Add",         "Sub",     "Mul",  "Div",
                                            "Min",         "Max",     "Pow",  "Where",
                                            "PRelu",       "Greater", "Less", "GreaterOrEqual",
                                            "LessOrEqual", "Equal",   "And",  "Or"};
  if (constant.batch_axis < 0) return true;
  if (std::ranges::find(recurrent, node.type()) != std::end(recurrent)) return true;
  if (std::ranges::find(pointwise, node.type()) == std::end(pointwise)) return false;
  int rank = 0;
  for (int k = 0; k < node.inputs(); ++k) {
    const OnnxValue* value = find_value(node.input(k));
    if (value != nullptr) rank = std::max(rank, value->rank());
  }
  return constant.batch_axis + rank == constant.shape.rank();
}

std::vector<float> OnnxImporter::floats(const OnnxNode& node, int k, int64_t count) const {
  const OnnxConstant& found = constant(node, k);
  require<FormatError>(found.is_float && static_cast<int64_t>(found.floats.size()) == count,
                       "input {}, '{}', must hold {} floats", k, printable(node.input(k)),
                       count);
  return found.floats;
}

void OnnxImporter::give(const OnnxNode& node, OnnxValue value, int k) {
  values_[node.output(k)] = std::move(value);
}

NodeId OnnxImporter::add(Op op, std::vector<NodeId> operands, std::string label) {
  if (const auto* slice = std::get_if<Slice>(&op); slice != nullptr && label.empty()) {
    if (const auto parts = selected_parts(*slice, operands[0])) return *parts;
  }
  // A product without a label is followed by the bias, which has the label of the layer; views
  // and Transposes without one are merged with others.
  const bool unnamed =
      is_any<MatMul, Conv1d, Conv2d, ConvTranspose2d, Reshape, Flatten, Transpose, Constant>(
          op);
  if (current_ != nullptr && label.empty() && !unnamed) {
    label = node_label(*current_, lower_case(std::string(name_of(op))));
  }
  return graph_.add(std::move(op), operands, std::move(label));
}

}  // namespace qtape
