#include "qtape/tflite/import/program_reader.h"

#include "qtape/core/byte_order.h"
#include "qtape/tflite/activations.h"
#include "qtape/tflite/bounds.h"

namespace qtape::tflite {

ProgramReader::ProgramReader(OperatorView& view) : view_(view), values_(view) {}

void ProgramReader::add(const Layer& layer) {
  std::visit([&](const auto& each) { add_layer(each); }, layer);
}

/// Adds f32 and, for a tensor of codes, its quantizer.
void ProgramReader::add_input(int32_t tensor) {
  const TfliteTensor& own = view_.tensor(tensor);
  const bool floats = own.type == TfliteType::Float32;
  const CodeGrid grid = floats ? CodeGrid{} : view_.grid_of(own);
  check(!has_value(tensor), "tensor '{}' is an input twice", printable(own.name));
  const std::string name = name_of_input(own, tensor);
  const ProgramNodeId input =
      append(integer::Input{view_.shape_of(own), view_.batched()}, {}, name);
  if (floats) return values_.set(tensor, input);
  const integer::Quantize quantize{.grid = grid, .rounding = Rounding::HalfAway};
  values_.set(tensor, append(quantize, {input}, name + ".codes"));
}

/// Adds the floats of codes.
void ProgramReader::add_output(int32_t tensor) {
  const ProgramNodeId id = *values_.find(tensor);
  const std::string& name = view_.tensor(tensor).name;
  const std::string label = name.empty() ? "output.value" : name + ".value";
  const bool floats = !type_of(id).is_codes();
  outputs_.push_back(floats ? id : append(integer::Dequantize{}, {id}, label));
}

IntegerProgram ProgramReader::finish() {
  program_.set_outputs(std::move(outputs_));
  return std::move(program_);
}

ModelTensors ProgramReader::tensors(const IntegerProgram& program) const {
  const TfliteModel& model = view_.model();
  ModelTensors tensors{NodeMap<std::optional<int32_t>, IntegerProgram>(program), model.inputs};
  for (size_t index = 0; index < model.tensors.size(); ++index) {
    const auto tensor = static_cast<int32_t>(index);
    if (const auto& id = values_.find(tensor)) tensors.values[*id] = tensor;
  }
  return tensors;
}

CodeGrid ProgramReader::output_grid(Activation activation) const {
  return limited(view_.grid_of(view_.output()), activation);
}

ProgramNodeId ProgramReader::value(size_t k) {
  if (const auto& known = values_.known(k)) return *known;
  const TfliteTensor& tensor = view_.input(k);
  const Shape shape = view_.shape_of(tensor);
  view_.use_weights(shape.elements());
  const CodeGrid grid = view_.grid_of(tensor);
  const TensorType type{grid.dtype, shape};
  const LittleEndian data(view_.data_of(tensor, tensor.type, type.bytes()),
                          size_of(grid.dtype));
  const integer::Constant constant{grid, {type, data.copy()}};
  const ProgramNodeId id = append(constant, {}, tensor.name);
  values_.keep(view_.op().inputs[k], id);
  return id;
}

ProgramNodeId ProgramReader::codes(size_t k) {
  const TfliteType type = view_.input(k).type, made = view_.output().type;
  const ProgramNodeId id = value(k);
  check(type_of(id).is_codes(), "input {} is {}, expected INT8 or INT16", k, name_of(type));
  check(type == made, "input {} is {}, expected {} as the output", k, name_of(type),
        name_of(made));
  return id;
}

ProgramNodeId ProgramReader::append(IntegerOp op, std::initializer_list<ProgramNodeId> operands,
                                    const std::string& label) {
  return program_.add(std::move(op), operands, unused(label));
}

void ProgramReader::finish(ProgramNodeId id) {
  view_.check_computed(type_of(id).type.shape);
  values_.set(view_.op().outputs[0], id);
}

void ProgramReader::finish(IntegerOp op, std::span<const ProgramNodeId> operands) {
  finish(program_.add(std::move(op), operands, unused(view_.output().name)));
}

void ProgramReader::finish_requantized(ProgramNodeId x, const CodeGrid& grid) {
  check_requantized(type_of(x), grid.scale);
  finish(integer::Requantize{grid}, {x});
}

void ProgramReader::finish_limited(IntegerOp op, ProgramNodeId x, Activation activation) {
  const CodeGrid grid = output_grid(activation);
  if (grid == output_grid()) return finish(std::move(op), {x});
  // On its own grid a code is multiplied by one.
  finish(integer::Requantize{grid}, {append(std::move(op), {x})});
}

std::string ProgramReader::unused(const std::string& name) {
  return names_.unused(name, [&](const std::string& each) { return program_.find(each); });
}

}  // namespace qtape::tflite
