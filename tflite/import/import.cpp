#include "qtape/tflite/import.h"

#include <fmt/format.h>

#include <algorithm>

#include "qtape/core/printable.h"
#include "qtape/io/files.h"
#include "qtape/tflite/import/program_reader.h"
#include "qtape/tflite/model_tensors.h"

namespace qtape {

using namespace tflite;
namespace {

constexpr int64_t largest_file = int64_t{1} << 31;

/// Everything in a model that is not supported, in order.
struct Problems {
  std::vector<std::string> texts;

  void add(const std::string& place, std::string_view reason) {
    texts.push_back(fmt::format("{}: {}", place, reason));
  }
  /// Throws FormatError with all problems, unless there are none.
  void settle() const {
    if (texts.empty()) return;
    const std::string all = fmt::format("{}", fmt::join(texts, "; "));
    if (texts.size() == 1) fail<FormatError>("{}", all);
    fail<FormatError>("{} problems: {}", texts.size(), all);
  }
};

const OperatorReader* reader_of(Builtin op) {
  for (const auto readers : all_readers()) {
    const auto found = std::ranges::find(readers, op, &OperatorReader::op);
    if (found != readers.end()) return &*found;
  }
  return nullptr;
}

/// Returns `operators[3] CONV_2D 'sequential/conv2d'`.
std::string place_of(const TfliteModel& model, size_t index) {
  const TfliteOperator& op = model.operators[index];
  std::string place = fmt::format("operators[{}] {}", index, name_of(op.op));
  if (op.op == Builtin::Custom) place += fmt::format(" {}", printable(op.custom));
  if (op.outputs.empty()) return place;
  const TfliteTensor& tensor = model.tensors[static_cast<size_t>(op.outputs[0])];
  return place + fmt::format(" '{}'", printable(tensor.name));
}

/// Adds an input: f32 and, for a tensor of codes, its quantizer.
void read_input(ProgramReader& reader, IntegerProgram& program, const TfliteTensor& tensor,
                int32_t index) {
  const bool floats = tensor.type == TfliteType::Float32;
  const CodeGrid grid = floats ? CodeGrid{} : reader.grid_of(tensor);
  check(!reader.found_value(index), "tensor '{}' is an input twice", printable(tensor.name));
  const std::string name = tensor.name.empty() ? fmt::format("input_{}", index) : tensor.name;
  const ProgramNodeId input = program.add(
      integer::Input{reader.shape_of(tensor), reader.batched()}, {}, reader.unused(name));
  if (floats) return reader.set_value(index, input);
  const integer::Quantize quantize{.grid = grid, .rounding = Rounding::HalfAway};
  reader.set_value(index, program.add(quantize, {input}, reader.unused(name + ".codes")));
}

void read_inputs(const TfliteModel& model, ProgramReader& reader, IntegerProgram& program,
                 Problems& problems) {
  for (size_t k = 0; k < model.inputs.size(); ++k) {
    const auto index = static_cast<size_t>(model.inputs[k]);
    try {
      read_input(reader, program, model.tensors[index], model.inputs[k]);
    } catch (const GraphError& error) {
      problems.add(fmt::format("inputs[{}]", k), error.what());
    }
  }
}

void read_operator(const TfliteOperator& op, ProgramReader& reader) {
  const OperatorReader* found = reader_of(op.op);
  check(found != nullptr, "the operator is not supported");
  check(op.version >= 1 && op.version <= found->last_version,
        "has version {}, expected 1 to {}", op.version, found->last_version);
  reader.begin(op);
  found->read(reader);
}

void read_operators(const TfliteModel& model, ProgramReader& reader, Problems& problems) {
  for (size_t i = 0; i < model.operators.size(); ++i) {
    try {
      read_operator(model.operators[i], reader);
    } catch (const Unknown&) {
      // An operand is that of an operator with a problem; or it is never computed.
      if (problems.texts.empty())
        problems.add(place_of(model, i), "reads a tensor that is not computed");
    } catch (const Error& error) {
      problems.add(place_of(model, i), error.what());
    }
  }
}

/// Adds the floats of the outputs.
void read_outputs(const TfliteModel& model, ProgramReader& reader, IntegerProgram& program,
                  Problems& problems) {
  std::vector<ProgramNodeId> outputs;
  for (const int32_t index : model.outputs) {
    const TfliteTensor& tensor = model.tensors[static_cast<size_t>(index)];
    const auto found = reader.found_value(index);
    if (!found) {
      if (problems.texts.empty()) {
        problems.add(fmt::format("output '{}'", printable(tensor.name)), "is not computed");
      }
      continue;
    }
    const bool floats = program[*found].value.type.dtype == DType::F32;
    const std::string label = tensor.name.empty() ? "output.values" : tensor.name + ".values";
    outputs.push_back(
        floats ? *found : program.add(integer::Dequantize{}, {*found}, reader.unused(label)));
  }
  problems.settle();
  program.set_outputs(std::move(outputs));
}

void add_notes(const ProgramReader& reader, std::vector<std::string>* notes) {
  if (notes == nullptr || reader.batched()) return;
  notes->emplace_back("axis 0 of a tensor is not 1: the program has the extents of the file");
}

ModelTensors tensors_of(const TfliteModel& model, const ProgramReader& reader,
                        const IntegerProgram& program) {
  ModelTensors tensors{NodeMap<std::optional<int32_t>, IntegerProgram>(program), model.inputs};
  for (size_t index = 0; index < model.tensors.size(); ++index) {
    const auto tensor = static_cast<int32_t>(index);
    if (const auto id = reader.found_value(tensor)) tensors.values[*id] = tensor;
  }
  return tensors;
}

ReadModel program_of(const TfliteModel& model, std::vector<std::string>* notes) {
  require<FormatError>(!model.inputs.empty(), "there are no inputs");
  require<FormatError>(!model.outputs.empty(), "there are no outputs");
  IntegerProgram program(Requantization::DoubleRounding);
  Problems problems;
  ProgramReader reader(model, program);
  read_inputs(model, reader, program, problems);
  read_operators(model, reader, problems);
  read_outputs(model, reader, program, problems);
  add_notes(reader, notes);
  ModelTensors tensors = tensors_of(model, reader, program);
  return {std::move(program), std::move(tensors)};
}

}  // namespace

std::array<std::span<const OperatorReader>, 4> tflite::all_readers() {
  return {product_readers(), pointwise_readers(), window_readers(), structure_readers()};
}

bool is_tflite(std::string_view bytes) {
  return bytes.size() >= 8 && bytes.substr(4, 4) == identifier;
}

ReadModel tflite::read_model(std::string_view bytes, std::vector<std::string>* notes) {
  const TfliteModel model = parse_model(bytes);
  try {
    return program_of(model, notes);
  } catch (const GraphError& error) {
    fail<FormatError>("{}", error.what());
  } catch (const ArgumentError& error) {
    fail<FormatError>("{}", error.what());
  }
}

IntegerProgram parse_tflite(std::string_view bytes, std::vector<std::string>* notes) {
  return read_model(bytes, notes).program;
}

IntegerProgram import_tflite(const std::string& path, std::vector<std::string>* notes) {
  const std::string bytes = read_file(path, largest_file);
  return naming<FormatError>(path, [&] { return parse_tflite(bytes, notes); });
}

}  // namespace qtape
