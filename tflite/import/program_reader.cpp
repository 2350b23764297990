#include "qtape/tflite/import/program_reader.h"

#include <fmt/format.h>

#include <cmath>

#include "qtape/core/printable.h"
#include "qtape/tflite/activations.h"
#include "qtape/tflite/bounds.h"

namespace qtape::tflite {
namespace {

bool is_data(const TfliteModel& model, const TfliteTensor& tensor) {
  return !model.buffers[tensor.buffer].empty();
}

/// True if all activations have an axis 0 of extent 1.
bool has_batch(const TfliteModel& model) {
  const auto single = [&](int32_t index) {
    const TfliteTensor& tensor = model.tensors[static_cast<size_t>(index)];
    return !tensor.shape.empty() && tensor.shape[0] == 1;
  };
  for (const TfliteOperator& op : model.operators) {
    if (!std::ranges::all_of(op.outputs, single)) return false;
  }
  return std::ranges::all_of(model.inputs, single);
}

}  // namespace

ProgramReader::ProgramReader(const TfliteModel& model, IntegerProgram& program)
    : model_(model),
      program_(program),
      values_(model.tensors.size()),
      weights_left_(int64_t{1} << 20),
      batched_(has_batch(model)) {
  constexpr int64_t most_uses = 32;  // of the bytes of a file
  for (const auto& each : model.buffers) weights_left_ += most_uses * std::ssize(each);
}

void ProgramReader::use_weights(int64_t count) {
  weights_left_ -= count;
  check(weights_left_ >= 0, "reads weights that too many other operators share");
}

void ProgramReader::check_pair(ProgramNodeId a, ProgramNodeId b) const {
  if (!batched_) return;
  const int rank = static_cast<int>(output().shape.size());
  for (const ProgramNodeId id : {a, b}) {
    const Shape& shape = type_of(id).type.shape;
    const bool constant = program_[id].operands.empty();
    check(shape.rank() == rank || (constant && shape.rank() < rank),
          "mixes samples: an operand is {}, expected {} axes", to_string(shape), rank);
  }
}

void ProgramReader::check_operands(size_t least, size_t most) const {
  const size_t count = op_->inputs.size();
  check(count >= least && count <= most, "has {} inputs, expected {}", count,
        least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most));
  check(op_->outputs.size() == 1, "has {} outputs, expected 1", op_->outputs.size());
}

bool ProgramReader::has_input(size_t k) const {
  return k < op_->inputs.size() && op_->inputs[k] >= 0;
}

const TfliteTensor& ProgramReader::input(size_t k) const {
  check(has_input(k), "input {} is missing", k);
  return model_.tensors[static_cast<size_t>(op_->inputs[k])];
}

const TfliteTensor& ProgramReader::output() const {
  return model_.tensors[static_cast<size_t>(op_->outputs[0])];
}

bool ProgramReader::is_constant(const TfliteTensor& tensor) const {
  return is_data(model_, tensor);
}

Shape ProgramReader::shape_of(const TfliteTensor& tensor) const {
  return Shape(std::vector<int64_t>(tensor.shape.begin(), tensor.shape.end()));
}

std::span<const std::byte> ProgramReader::data_of(const TfliteTensor& tensor, TfliteType type,
                                                  int64_t size) const {
  check(tensor.type == type, "tensor '{}' is {}, expected {}", printable(tensor.name),
        name_of(tensor.type), name_of(type));
  check(is_constant(tensor), "tensor '{}' is computed, expected a constant",
        printable(tensor.name));
  const std::span<const std::byte> data = model_.buffers[tensor.buffer];
  check(std::ssize(data) == size, "tensor '{}' has {} bytes, expected {}",
        printable(tensor.name), data.size(), size);
  return data;
}

std::vector<int64_t> ProgramReader::numbers(size_t k) const {
  const TfliteTensor& tensor = input(k);
  const int64_t n = shape_of(tensor).elements();
  if (tensor.type == TfliteType::Int64) {
    return constants<int64_t>(tensor, TfliteType::Int64, n);
  }
  const std::vector<int32_t> values = constants<int32_t>(tensor, TfliteType::Int32, n);
  return {values.begin(), values.end()};
}

CodeGrid ProgramReader::grid_of(const TfliteTensor& tensor) const {
  const std::string name = printable(tensor.name);
  check(tensor.type == TfliteType::Int8, "tensor '{}' is {}, expected INT8", name,
        name_of(tensor.type));
  check(tensor.scales.size() == 1, "tensor '{}' has {} scales, expected 1", name,
        tensor.scales.size());
  const int64_t zero = tensor.zero_points.empty() ? 0 : tensor.zero_points[0];
  check(zero >= -128 && zero <= 127, "tensor '{}' has the zero point {}, expected -128..127",
        name, zero);
  CodeGrid grid{.scale = double{tensor.scales[0]}, .zero_point = static_cast<int32_t>(zero)};
  check(std::isnormal(tensor.scales[0]) && tensor.scales[0] > 0,
        "tensor '{}' has the scale {}, expected a positive normal number", name,
        tensor.scales[0]);
  return grid;
}

CodeGrid ProgramReader::output_grid(Activation activation) const {
  return limited(grid_of(output()), activation);
}

void ProgramReader::check_same_grid(size_t k) const {
  const CodeGrid from = grid_of(input(k));
  const CodeGrid to = grid_of(output());
  check(from == to,
        "changes the scale {} and zero point {} of input {} to {} and {}, expected the same",
        from.scale, from.zero_point, k, to.scale, to.zero_point);
}

ProgramNodeId ProgramReader::value(size_t k) {
  const TfliteTensor& tensor = input(k);
  const auto index = static_cast<size_t>(op_->inputs[k]);
  check(!tensor.is_variable, "tensor '{}' is a variable, expected an activation or a constant",
        printable(tensor.name));
  if (values_[index]) return *values_[index];
  if (!is_constant(tensor)) throw Unknown{};
  const Shape shape = shape_of(tensor);
  const auto data = data_of(tensor, TfliteType::Int8, shape.elements());
  const integer::Constant constant{grid_of(tensor),
                                   {{DType::S8, shape}, {data.begin(), data.end()}}};
  values_[index] = program_.add(constant, {}, unused(tensor.name));
  return *values_[index];
}

ProgramNodeId ProgramReader::codes(size_t k) {
  const ProgramNodeId id = value(k);
  check(type_of(id).is_codes(), "input {} is {}, expected INT8", k, name_of(input(k).type));
  return id;
}

ProgramNodeId ProgramReader::add(IntegerOp op, std::initializer_list<ProgramNodeId> operands,
                                 const std::string& label) {
  return program_.add(std::move(op), operands, label.empty() ? label : unused(label));
}

void ProgramReader::finish(ProgramNodeId id) {
  const Shape& made = type_of(id).type.shape;
  const Shape stated = shape_of(output());
  check(made == stated, "computes {}, but tensor '{}' is {}", to_string(made),
        printable(output().name), to_string(stated));
  set_value(op_->outputs[0], id);
}

void ProgramReader::finish_requantized(ProgramNodeId x, const CodeGrid& grid) {
  check_requantized(type_of(x), grid.scale);
  finish(integer::Requantize{grid}, {x});
}

void ProgramReader::finish(IntegerOp op, std::span<const ProgramNodeId> operands) {
  finish(program_.add(std::move(op), operands, unused(output().name)));
}

void ProgramReader::finish_limited(IntegerOp op, ProgramNodeId x, Activation activation) {
  check_same_grid(0);
  const CodeGrid grid = output_grid(activation);
  if (grid == output_grid(Activation::None)) return finish(std::move(op), {x});
  // On its own grid a code is multiplied by one.
  finish(integer::Requantize{grid}, {add(std::move(op), {x})});
}

std::string ProgramReader::unused(const std::string& name) {
  if (name.empty() || !program_.find(name)) return name;
  for (int& number = copies_.try_emplace(name, 1).first->second;;) {
    const std::string other = fmt::format("{}_{}", name, ++number);
    if (!program_.find(other)) return other;
  }
}

void ProgramReader::set_value(int32_t tensor, ProgramNodeId id) {
  const auto index = static_cast<size_t>(tensor);
  const std::string name = printable(model_.tensors[index].name);
  check(!values_[index], "tensor '{}' is computed twice", name);
  check(!is_data(model_, model_.tensors[index]), "tensor '{}' is computed and has data", name);
  values_[index] = id;
}

std::optional<ProgramNodeId> ProgramReader::found_value(int32_t tensor) const {
  return values_[static_cast<size_t>(tensor)];
}

Padding padding_of(PaddingType padding) {
  check(padding == PaddingType::Same || padding == PaddingType::Valid,
        "has the padding {}, expected 0 (SAME) or 1 (VALID)", static_cast<int>(padding));
  return padding == PaddingType::Same ? Padding::Same : Padding::Valid;
}

}  // namespace qtape::tflite
