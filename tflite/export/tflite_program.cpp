#include "qtape/tflite/export/tflite_program.h"

#include <fmt/format.h>

#include <limits>

#include "qtape/core/printable.h"
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

}  // namespace

TfliteProgram::TfliteProgram(const IntegerProgram& program)
    : program_(program), tensors_(program) {
  model.description = "qtape";
  model.buffers.emplace_back();
}

int32_t TfliteProgram::tensor_of(ProgramNodeId id) const {
  const auto found = tensors_[id];
  check(found.has_value(), "{} is {}, expected codes of an operator", program_.name(id),
        program_[id].value.is_accumulators() ? "accumulators" : "floats");
  return *found;
}

std::string TfliteProgram::name() const {
  return node().label.empty() ? fmt::format("node_{}", current_.index) : node().label;
}

std::string TfliteProgram::part(std::string_view name) const {
  return fmt::format("{}/{}", this->name(), name);
}

int32_t TfliteProgram::add_tensor(const std::string& name, const IntegerValue& value,
                                  const std::optional<Shape>& shape) {
  check(value.type.dtype == DType::S8, "codes are {}, expected s8",
        to_string_view(value.type.dtype));
  const Shape stored = shape.value_or(value.type.shape);
  check(stored.rank() <= most_axes, "has {} axes, TensorFlow Lite Micro takes up to {}",
        stored.rank(), most_axes);
  TfliteTensor tensor{
      .name = name, .shape = narrow(stored.extents()), .type = TfliteType::Int8};
  tensor.scales = {static_cast<float>(value.scales[0])};
  tensor.zero_points = {value.zero_point};
  model.tensors.push_back(std::move(tensor));
  return static_cast<int32_t>(model.tensors.size()) - 1;
}

int32_t TfliteProgram::add_constant(const ConstantData& data) {
  TfliteTensor tensor{.name = data.name, .shape = narrow(data.shape), .type = data.type};
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
  const auto bytes = std::as_bytes(std::span(values));
  return add_constant({.name = name,
                       .type = TfliteType::Int32,
                       .shape = {shape.extents().begin(), shape.extents().end()},
                       .bytes = {bytes.begin(), bytes.end()}});
}

void TfliteProgram::add_operator(Builtin op, int32_t version, std::vector<int32_t> inputs,
                                 int32_t output, Options options) {
  model.operators.push_back({.op = op,
                             .version = version,
                             .inputs = std::move(inputs),
                             .outputs = {output},
                             .options = std::move(options)});
}

int32_t TfliteProgram::add_result() { return add_tensor(name(), out()); }

void TfliteProgram::finish(Builtin op, int32_t version, std::vector<int32_t> inputs,
                           Options options) {
  const int32_t result = add_result();
  add_operator(op, version, std::move(inputs), result, std::move(options));
  finish(result);
}

void TfliteProgram::finish(int32_t tensor) { tensors_[current_] = tensor; }

void TfliteProgram::finish_input() {
  const ProgramNodeId input = node().operands[0];
  check(!inputs_.contains(input.index), "{} has two quantizers, expected one",
        program_.name(input));
  check(out().type.dtype == DType::S8,
        "adds the zero point of unsigned codes before it rounds; expected signed codes");
  const std::string& label = operand(0).label;
  const int32_t result = add_tensor(label.empty() ? name() : label, out());
  inputs_.emplace(input.index, result);
  if (out().low > -128 || out().high < 127) {
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
  for (const ProgramNodeId id : ids(program_)) {
    if (!std::holds_alternative<integer::Input>(program_[id].op)) continue;
    const auto found = inputs_.find(id.index);
    check(found != inputs_.end(), "{} has no quantizer, expected one", program_.name(id));
    model.inputs.push_back(found->second);
  }
  check(!model.inputs.empty(), "the program has no inputs");
}

Activation TfliteProgram::activation(const CodeGrid& grid) {
  const auto found = activation_of(grid);
  check(found.has_value(),
        "codes are limited to {}..{}, expected -128..127 or the limits of RELU, RELU6 or "
        "RELU_N1_TO_1",
        grid.low, grid.high);
  return *found;
}

}  // namespace qtape::tflite
