#include "qtape/tflite/import.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "qtape/core/float_environment.h"
#include "qtape/io/files.h"
#include "qtape/tflite/import/model_reader.h"
#include "qtape/tflite/import/program_reader.h"
#include "qtape/tflite/model_tensors.h"

namespace qtape {

using namespace tflite;
namespace {

constexpr int64_t largest_file = int64_t{1} << 31;

/// Calls `read(view)`, which makes something of a model; its errors become FormatErrors.
template <class Read>
auto reading(std::string_view bytes, std::vector<std::string>* notes, const Read& read) {
  const TfliteModel model = parse_model(bytes);
  try {
    OperatorView view(model);
    auto result = read(view);
    if (notes != nullptr && !view.batched()) {
      notes->emplace_back(
          "axis 0 of a tensor is not 1: all extents are those of the file, also the first");
    }
    return result;
  } catch (const GraphError& error) {
    fail<FormatError>("{}", error.what());
  } catch (const ArgumentError& error) {
    fail<FormatError>("{}", error.what());
  }
}

/// True if every operator computes floats.
bool is_in_floats(const TfliteModel& model) {
  return std::ranges::all_of(model.operators, [&](const TfliteOperator& op) {
    return std::ranges::all_of(op.outputs, [&](int32_t index) {
      return model.tensors[static_cast<size_t>(index)].type == TfliteType::Float32;
    });
  });
}

}  // namespace

bool is_tflite(std::string_view bytes) {
  return bytes.size() >= 8 && bytes.substr(4, 4) == identifier;
}

ReadProgram tflite::read_program(std::string_view bytes, std::vector<std::string>* notes) {
  const FloatEnvironment floats;
  return reading(bytes, notes, [](OperatorView& view) {
    const TfliteModel& model = view.model();
    require<FormatError>(
        model.operators.empty() || !is_in_floats(model),
        "computes in floats, expected INT8 or INT16; qtape import reads it as a model");
    ProgramReader reader(view);
    read_model(view, reader);
    IntegerProgram program = reader.finish();
    ModelTensors tensors = reader.tensors(program);
    return ReadProgram{std::move(program), std::move(tensors)};
  });
}

IntegerProgram parse_tflite(std::string_view bytes, std::vector<std::string>* notes) {
  return read_program(bytes, notes).program;
}

SavedModel parse_tflite_model(std::string_view bytes, std::vector<std::string>* notes) {
  const FloatEnvironment floats;
  return reading(bytes, notes, [&](OperatorView& view) {
    ModelReader reader(view);
    read_model(view, reader);
    if (notes != nullptr) std::ranges::copy(reader.notes().lines(), std::back_inserter(*notes));
    return reader.finish();
  });
}

SavedModel import_tflite_model(const std::string& path, std::vector<std::string>* notes) {
  const std::string bytes = read_file(path, largest_file);
  return naming<FormatError>(path, [&] { return parse_tflite_model(bytes, notes); });
}

IntegerProgram import_tflite(const std::string& path, std::vector<std::string>* notes) {
  const std::string bytes = read_file(path, largest_file);
  return naming<FormatError>(path, [&] { return parse_tflite(bytes, notes); });
}

}  // namespace qtape
