#include "qtape/tflite/export.h"

#include <fmt/format.h>

#include "qtape/core/float_environment.h"
#include "qtape/core/printable.h"
#include "qtape/core/reasons.h"
#include "qtape/integer/program/signed_codes.h"
#include "qtape/io/files.h"
#include "qtape/tflite/export/tflite_writers.h"
#include "qtape/tflite/model_tensors.h"

namespace qtape {

using namespace tflite;
namespace {

/// Returns the label of a node or, if it has none, of the first labelled one that uses it.
std::string label_of(const IntegerProgram& program, ProgramNodeId id) {
  for (const ProgramNodeId user : ids(program)) {
    if (!program[id].label.empty() || user < id) continue;
    if (std::ranges::count(program[user].operands, id) > 0) return program[user].label;
  }
  return program[id].label;
}

/// Returns `Requantize 'conv1'`, or the node with its operands if no label is near.
std::string place_of(const IntegerProgram& program, ProgramNodeId id) {
  const std::string label = label_of(program, id);
  if (label.empty()) return program.describe(id);
  return fmt::format("{} '{}'", name_of(program[id].op), printable(label));
}

/// Throws GraphError that names all problems, if there are any.
void settle(const Reasons& problems) {
  check(problems.size() != 1, "{}", problems.text());
  check(problems.empty(), "{} problems: {}", problems.size(), problems.text());
}

/// Adds the operators of all nodes, and the reasons why some are refused to `problems`. Marks
/// in the result the nodes that are not known: refused ones without codes, and their users.
NodeMap<char, IntegerProgram> write_nodes(TfliteProgram& p, Reasons& problems) {
  NodeMap<char, IntegerProgram> unknown(p.program());
  for (const ProgramNodeId id : ids(p.program())) {
    const auto& operands = p.program()[id].operands;
    p.begin(id);
    // Codes of sums that are refused stand for themselves, so that what follows is checked.
    if (std::ranges::any_of(operands, [&](ProgramNodeId each) { return unknown[each] != 0; })) {
      unknown[id] = p.replace_refused() ? 0 : 1;
      continue;
    }
    try {
      write_tflite(p.program()[id].op, p);
    } catch (const GraphError& error) {
      unknown[id] = p.replace_refused() ? 0 : 1;
      problems.add(place_of(p.program(), id), error.what());
    }
  }
  return unknown;
}

/// Throws unless the data leave space for tables in the 2 GiB of a file.
void check_size(const TfliteModel& model) {
  constexpr int64_t most = int64_t{1} << 30;
  int64_t bytes = 0;
  for (const auto& each : model.buffers) bytes += std::ssize(each);
  check(bytes <= most, "constants take {} bytes, expected at most {}", bytes, most);
}

/// Returns the tensors of `program`, of which `made` was made.
ModelTensors tensors_of(const TfliteProgram& p, const IntegerProgram& program,
                        const RewrittenProgram& made) {
  ModelTensors tensors{NodeMap<std::optional<int32_t>, IntegerProgram>(program),
                       p.model.inputs};
  for (const ProgramNodeId id : ids(program)) {
    const ProgramNodeId written = made.nodes[id];
    if (program[id].value.is_codes() && p.has_tensor(written)) {
      tensors.values[id] = p.tensor_of(written);
    }
  }
  return tensors;
}

void add_notes(const TfliteProgram& p, std::vector<std::string>* notes) {
  if (notes == nullptr) return;
  const TfliteModel& model = p.model;
  const auto note = [&](std::string_view what, int32_t index) {
    const TfliteTensor& tensor = model.tensors[static_cast<size_t>(index)];
    notes->push_back(fmt::format("{} '{}': {}, scale {}, zero point {}{}", what,
                                 printable(tensor.name), name_of(tensor.type), tensor.scales[0],
                                 tensor.zero_points[0], p.limits_of(index)));
  };
  for (const int32_t each : model.inputs) note("input", each);
  for (const int32_t each : model.outputs) note("output", each);
  notes->insert(notes->end(), p.notes.begin(), p.notes.end());
}

}  // namespace

WrittenModel tflite::write_model(const IntegerProgram& program,
                                 std::vector<std::string>* notes) {
  check(program.requantization() == Requantization::DoubleRounding,
        "the program has {}, expected DoubleRounding, which TensorFlow Lite Micro computes",
        to_string_view(program.requantization()));
  const RewrittenProgram made =
      with_signed_codes(program.batch() ? program.with_batch(1) : program);
  const IntegerProgram& one = made.program;
  TfliteProgram p(one);
  Reasons problems;
  const NodeMap<char, IntegerProgram> unknown = write_nodes(p, problems);
  for (const ProgramNodeId id : one.outputs()) {
    if (std::holds_alternative<integer::Constant>(one[id].op)) {
      problems.add("output " + place_of(one, id), "is a constant, expected computed codes");
    } else if (p.has_tensor(id)) {
      p.model.outputs.push_back(p.tensor_of(id));
    } else if (unknown[id] == 0) {
      problems.add("output " + place_of(one, id), "is not codes; quantize it in the model");
    }
  }
  settle(problems);
  check(!one.outputs().empty(), "the program has no outputs");
  p.set_inputs();
  add_notes(p, notes);
  check_size(p.model);
  return {model_bytes(p.model), tensors_of(p, program, made)};
}

std::string to_tflite(const IntegerProgram& program, std::vector<std::string>* notes) {
  const FloatEnvironment floats;
  return write_model(program, notes).bytes;
}

int64_t write_tflite(const std::string& path, const IntegerProgram& program,
                     std::vector<std::string>* notes) {
  const std::string bytes = to_tflite(program, notes);
  write_file(path, bytes);
  return std::ssize(bytes);
}

}  // namespace qtape
