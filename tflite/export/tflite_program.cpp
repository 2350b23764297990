#include "qtape/tflite/export/tflite_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "qtape/core/byte_order.h"
#include "qtape/core/printable.h"
#include "qtape/engine/labels.h"
#include "qtape/tflite/activations.h"
#include "qtape/tflite/bounds.h"

namespace qtape::tflite {
namespace {

std::vector<int32_t> narrow(std::span<const int64_t> extents) {
  std::vector<int32_t> shape;
  for (const int64_t each : extents) {
    check(each <= std::numeric_limits<int32_t>::max(), "the extent {} exceeds 2^31 - 1", each);
    shape.push_back(static_cast<int32_t>(each));
  }
  return shape;
}

/// Versions of an operator by its codes, as the converter of TensorFlow Lite sets them.
struct Versions {
  Builtin op;
  int32_t int8;
  int32_t int16;
  int32_t int4 = 0;  ///< weights
};

/// Returns the version of an operator with codes of INT8 or INT16, or INT8 and weights of INT4.
int32_t version_of(Builtin op, TfliteType type) {
  static constexpr std::array all = {Versions{Builtin::Conv2d, 3, 8, 7},
                                     Versions{Builtin::DepthwiseConv2d, 3, 5, 7},
                                     Versions{Builtin::FullyConnected, 4, 11, 10},
                                     Versions{Builtin::Add, 2, 3},
                                     Versions{Builtin::Mul, 2, 4},
                                     Versions{Builtin::AveragePool2d, 2, 3},
                                     Versions{Builtin::MaxPool2d, 2, 3},
                                     Versions{Builtin::Mean, 2, 3},
                                     Versions{Builtin::Pad, 2, 3},
                                     Versions{Builtin::Concatenation, 2, 3},
                                     Versions{Builtin::Softmax, 2, 3},
                                     Versions{Builtin::Quantize, 1, 2},
                                     Versions{Builtin::Reshape, 1, 1},
                                     Versions{Builtin::Relu, 2, 3},
                                     Versions{Builtin::Relu6, 2, 3}};
  const auto* found = std::ranges::find(all, op, &Versions::op);
  check(found != all.end(), "{} has no version", name_of(op));
  if (type == TfliteType::Int4) return found->int4;
  return type == TfliteType::Int16 ? found->int16 : found->int8;
}

}  // namespace

TfliteProgram::TfliteProgram(const IntegerProgram& program)
    : program_(program), tensors_(program) {
  model.description = "qtape";
  model.buffers.emplace_back();
}

int32_t TfliteProgram::tensor_of(ProgramNodeId id) const {
  const auto found = tensors_[id];
  check(found.has_value(), "{} is {}", program_.name(id),
        program_[id].value.is_accumulators()
            ? "accumulators, expected codes: quantize_answers adds a quantizer to an answer; "
              "calibrate it"
            : "floats, expected codes");
  return *found;
}

int32_t TfliteProgram::same_type_tensor(ProgramNodeId id) const {
  const int32_t tensor = tensor_of(id);
  const DType from = program_[id].value.type.dtype, to = out().type.dtype;
  check(!out().is_codes() || from == to,
        "makes {} of {}, but TensorFlow Lite Micro changes the type of codes in QUANTIZE alone",
        to_string_view(to), to_string_view(from));
  return tensor;
}

void TfliteProgram::note(std::string_view text) {
  notes.push_back(fmt::format("{}: {}", printable(layer_name()), text));
}

std::string TfliteProgram::name() const {
  return node().label.empty() ? fmt::format("node_{}", current_.index) : node().label;
}

std::string TfliteProgram::part(std::string_view name) const {
  return fmt::format("{}/{}", layer_name(), name);
}

std::string TfliteProgram::unused(const std::string& name) {
  std::string found =
      unused_label(name, [&](const std::string& each) { return names_.contains(each); });
  names_.insert(found);
  return found;
}

std::string TfliteProgram::layer_name() const {
  if (!std::holds_alternative<integer::Requantize>(node().op)) return name();
  const IntegerNode& layer = operand(0);
  if (layer.value.is_codes() || layer.label.empty()) return name();
  // A program that was read has the names of its weights.
  const std::string_view ending = "/weights";
  const std::string& label = layer.label;
  return label.ends_with(ending) ? label.substr(0, label.size() - ending.size()) : label;
}

int32_t TfliteProgram::add_tensor(const std::string& name, const IntegerValue& value,
                                  const std::optional<Shape>& shape) {
  const DType dtype = value.type.dtype;
  const std::optional<TfliteType> type = type_of_codes(dtype);
  check(type.has_value(), "codes are {}, expected s8 or s16", to_string_view(dtype));
  check(
      dtype != DType::S16 || value.zero_point == 0,
      "codes of 16 bits have the zero point {}, expected 0: calibrate with --signed-activations",
      value.zero_point);
  const Shape stored = shape.value_or(value.type.shape);
  check(stored.rank() <= max_axes, "has {} axes, TensorFlow Lite Micro takes up to {}",
        stored.rank(), max_axes);
  TfliteTensor tensor{.name = unused(name), .shape = narrow(stored.extents()), .type = *type};
  tensor.scales = {static_cast<float>(value.scales[0])};
  tensor.zero_points = {value.zero_point};
  model.tensors.push_back(std::move(tensor));
  return static_cast<int32_t>(model.tensors.size()) - 1;
}

int32_t TfliteProgram::add_constant(const ConstantData& data) {
  TfliteTensor tensor{
      .name = unused(data.name), .shape = narrow(data.shape), .type = data.type};
  tensor.scales = data.scales;
  tensor.zero_points.assign(data.scales.size(), 0);
  tensor.quantized_dimension = data.axis;
  tensor.buffer = static_cast<uint32_t>(model.buffers.size());
  model.buffers.push_back(data.bytes);
  model.tensors.push_back(std::move(tensor));
  return static_cast<int32_t>(model.tensors.size()) - 1;
}

int32_t TfliteProgram::add_numbers(const std::string& name, const std::vector<int32_t>& values,
                                   const Shape& shape) {
  return add_constant({.name = name,
                       .type = TfliteType::Int32,
                       .shape = {shape.extents().begin(), shape.extents().end()},
                       .bytes = LittleEndian(std::span(values)).copy()});
}

void TfliteProgram::add_operator(Builtin op, std::vector<int32_t> inputs, int32_t output,
                                 Options options) {
  const auto type = [&](int32_t each) { return model.tensors[static_cast<size_t>(each)].type; };
  const bool int4 = inputs.size() > 1 && type(inputs[1]) == TfliteType::Int4;
  model.operators.push_back({.op = op,
                             .version = version_of(op, int4 ? TfliteType::Int4 : type(output)),
                             .inputs = std::move(inputs),
                             .outputs = {output},
                             .options = std::move(options)});
}

int32_t TfliteProgram::add_result() { return add_tensor(name(), out()); }

bool TfliteProgram::replace_refused() {
  if (!out().is_codes() || !type_of_codes(out().type.dtype)) return false;
  TfliteTensor tensor{.type = *type_of_codes(out().type.dtype)};
  model.tensors.push_back(std::move(tensor));
  finish(static_cast<int32_t>(model.tensors.size()) - 1);
  return true;
}

std::optional<int32_t> TfliteProgram::same_codes(const CodeGrid& grid) const {
  const ProgramNodeId sums = node().operands[0];
  for (int32_t i = sums.index + 1; i < current_.index; ++i) {
    const IntegerNode& other = program_[ProgramNodeId{i}];
    const auto* op = std::get_if<integer::Requantize>(&other.op);
    const bool same = op != nullptr && other.operands[0] == sums && op->grid == grid;
    if (same && tensors_[ProgramNodeId{i}]) return tensors_[ProgramNodeId{i}];
  }
  return std::nullopt;
}

void TfliteProgram::finish(Builtin op, std::vector<int32_t> inputs, Options options) {
  const int32_t result = add_result();
  add_operator(op, std::move(inputs), result, std::move(options));
  finish(result);
}

void TfliteProgram::finish(int32_t tensor) { tensors_[current_] = tensor; }

void TfliteProgram::finish_input() {
  const ProgramNodeId input = node().operands[0];
  check(!inputs_.contains(input.index), "{} has two quantizers, expected one",
        program_.name(input));
  check(type_of_codes(out().type.dtype).has_value(),
        "adds the zero point of unsigned codes before it rounds; expected signed codes");
  const std::string& label = operand(0).label;
  const int32_t result = add_tensor(label.empty() ? name() : label, out());
  inputs_.emplace(input.index, result);
  const CodeGrid codes{.dtype = out().type.dtype,
                       .low = static_cast<int32_t>(out().low),
                       .high = static_cast<int32_t>(out().high)};
  if (codes != limited(codes, Activation::None)) {
    limits_[result] = fmt::format(
        ", limited to {}..{}: limit the codes where they are made, as TensorFlow Lite Micro "
        "does not",
        out().low, out().high);
  }
  finish(result);
}

std::string TfliteProgram::limits_of(int32_t tensor) const {
  const auto found = limits_.find(tensor);
  return found == limits_.end() ? std::string() : found->second;
}

void TfliteProgram::set_inputs() {
  for (const ProgramNodeId id : input_ids(program_)) {
    const auto found = inputs_.find(id.index);
    check(found != inputs_.end(), "{} has no quantizer, expected one", program_.name(id));
    model.inputs.push_back(found->second);
  }
  check(!model.inputs.empty(), "the program has no inputs");
}

Activation TfliteProgram::activation(const CodeGrid& grid) {
  const auto found = activation_of(grid);
  check(found.has_value(),
        "codes are limited to {}..{}, expected {} or the limits of RELU, RELU6 or "
        "RELU_N1_TO_1: give activations 8 or 16 bits",
        grid.low, grid.high,
        grid.dtype == DType::S16 ? "-32768..32767 (16 bits)" : "-128..127 (8 bits)");
  return *found;
}

}  // namespace qtape::tflite
