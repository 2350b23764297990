#include "qtape/integer/program/integer_program.h"

#include <fmt/format.h>

#include "qtape/core/float_environment.h"
#include "qtape/engine/json_file.h"
#include "qtape/engine/node_list.inl.h"
#include "qtape/engine/print_fields.h"
#include "qtape/integer/program/integer_node.h"

namespace qtape {
namespace {

std::string scales_text(const std::vector<double>& scales) {
  if (scales.size() == 1) return fmt::format("{:.6g}", scales[0]);
  const auto [low, high] = std::ranges::minmax_element(scales);
  return scales.empty() ? "none" : fmt::format("{:.6g} to {:.6g}", *low, *high);
}

/// Describes the parts of a value other than its type: scale, zero point and range.
std::string value_text_of(const IntegerValue& value) {
  if (value.scales.empty()) return "";
  std::string text = fmt::format(" scale {}", scales_text(value.scales));
  if (value.zero_point != 0) text += fmt::format(", zero point {}", value.zero_point);
  return text + fmt::format(", {}..{}", value.low, value.high);
}

/// Describes an op briefly, without information already shown by its value.
std::string op_text(const IntegerOp& op) {
  if (const QuantizedWeights* w = weights_of(op)) {
    return fmt::format("{} {} of {} bits", name_of(op), to_string(w->shape), w->storage_bits);
  }
  return std::visit(
      []<class X>(const X& each) {
        X short_form = each;
        if constexpr (requires { short_form.grid; }) short_form.grid = {};
        if constexpr (requires { short_form.batch; }) short_form.shape = {};
        return value_text(IntegerOp(short_form));
      },
      op);
}

std::string program_text(const IntegerProgram& program) {
  std::string text = begin_file();
  text +=
      fmt::format(",\n\"requantization\": \"{}\"", to_string_view(program.requantization()));
  append_lines(text, "program", '[', ']', program.nodes(),
               [](std::string& to, const IntegerNode& node) { to += write_node(node).dump(); });
  return text + ",\n\"outputs\": " + write_ids(program.outputs()) + "\n}\n";
}

}  // namespace

template class NodeList<IntegerProgram, IntegerNode>;

IntegerProgram::IntegerProgram(Requantization requantization)
    : requantization_(requantization) {
  require_valid("requantization", requantization);
}
IntegerProgram::IntegerProgram(const IntegerProgram& other) = default;
IntegerProgram::IntegerProgram(IntegerProgram&& other) noexcept = default;
IntegerProgram& IntegerProgram::operator=(const IntegerProgram& other) = default;
IntegerProgram& IntegerProgram::operator=(IntegerProgram&& other) noexcept = default;
IntegerProgram::~IntegerProgram() = default;

bool IntegerProgram::operator==(const IntegerProgram& other) const {
  return requantization_ == other.requantization_ && nodes_ == other.nodes_ &&
         outputs_ == other.outputs_;
}

IntegerValue IntegerProgram::infer(const IntegerOp& op,
                                   std::span<const ProgramNodeId> operands) const {
  std::vector<IntegerValue> inputs;
  for (ProgramNodeId id : operands) inputs.push_back((*this)[id].value);
  IntegerValue value = std::visit([&](const auto& each) { return each.infer(inputs); }, op);
  const auto* input = std::get_if<integer::Input>(&op);
  if (input != nullptr && input->batch) check_batch(value.type.shape[0]);
  return value;
}

ProgramNodeId IntegerProgram::add(IntegerOp op, std::span<const ProgramNodeId> operands,
                                  std::string label) {
  const ProgramNodeId id{static_cast<int32_t>(size())};
  try {
    for (ProgramNodeId operand : operands) (void)(*this)[operand];
    const auto* input = std::get_if<integer::Input>(&op);
    check(input == nullptr || !label.empty(), "needs a label, by which it is found");
    check_unused(label);
    IntegerValue value = infer(op, operands);
    if (input != nullptr && input->batch) batch_ = value.type.shape[0];
    return append({std::move(op),
                   {operands.begin(), operands.end()},
                   std::move(label),
                   std::move(value)});
  } catch (const Error& error) {
    throw GraphError(describe(op, operands, label, id.index) + ": " + error.what());
  }
}

ProgramNodeId IntegerProgram::add(IntegerOp op, std::initializer_list<ProgramNodeId> operands,
                                  std::string label) {
  return add(std::move(op), std::span(operands.begin(), operands.size()), std::move(label));
}

void IntegerProgram::set_outputs(std::vector<ProgramNodeId> outputs) {
  replace_outputs(std::move(outputs));
}

void IntegerProgram::copy_outputs(const IntegerProgram& from,
                                  const NodeMap<ProgramNodeId, IntegerProgram>& copies) {
  std::vector<ProgramNodeId> outputs;
  for (ProgramNodeId id : from.outputs()) outputs.push_back(copies[id]);
  set_outputs(std::move(outputs));
}

IntegerProgram IntegerProgram::with_batch(int64_t batch) const {
  IntegerProgram result(requantization_);
  result.append_with_batch<integer::Input>(*this, batch);
  return result;
}

std::string to_string(const IntegerProgram& program) {
  std::string text =
      fmt::format("requantization {}\n", to_string_view(program.requantization()));
  for (const ProgramNodeId id : ids(program)) {
    const IntegerNode& node = program[id];
    text += fmt::format("{} {} = {}", program.reference(id), to_string(node.value.type),
                        op_text(node.op));
    for (size_t k = 0; k < node.operands.size(); ++k) {
      text += (k == 0 ? " (" : ", ") + program.reference(node.operands[k]);
    }
    text += fmt::format("{}{}\n", node.operands.empty() ? "" : ")", value_text_of(node.value));
    if (const QuantizedWeights* w = weights_of(node.op)) {
      text += fmt::format("   proven: {}\n", to_string(w->certificate));
    }
  }
  return text;
}

std::string to_json(const IntegerProgram& program) {
  try {
    return program_text(program);
  } catch (const NotUtf8& error) {
    fail<FormatError>("/: the label {}", error.what());
  }
}

ProgramNodeId source_of_indices(const IntegerProgram& program, ProgramNodeId id) {
  while (is_indices(program[id].value) && !program[id].operands.empty() &&
         !std::holds_alternative<integer::ArgMax>(program[id].op)) {
    id = program[id].operands[0];
  }
  return id;
}

int64_t largest_index(const IntegerProgram& program, ProgramNodeId input) {
  int64_t largest = program[input].value.high;
  for (const IntegerNode& node : program.nodes()) {
    if (!std::holds_alternative<integer::Embedding>(node.op)) continue;
    if (source_of_indices(program, node.operands[1]) != input) continue;
    largest = std::min(largest, program[node.operands[0]].value.type.shape[0] - 1);
  }
  return largest;
}

IntegerProgram program_from_json(std::string_view text) {
  const FloatEnvironment floats;
  const Json json = parse_document(text);
  const JsonPlace root{json};
  if (json.is_object() && json.contains("nodes")) {
    root.member("nodes").fail("the file holds a model, not an integer program");
  }
  check_header(root, {"requantization", "program", "outputs"});
  Requantization requantization = Requantization::FloatMultiply;
  read_json(root.member("requantization"), requantization);
  IntegerProgram program(requantization);
  read_nodes<IntegerOp>(root, "program", program);
  return program;
}

void save_program(const std::string& path, const IntegerProgram& program) {
  during("writing", path, [&] {
    write_text(path, naming<FormatError>(path, [&] { return to_json(program); }));
  });
}

IntegerProgram load_program(const std::string& path) {
  return read_text(path, program_from_json);
}

std::vector<ProgramNodeId> input_ids(const IntegerProgram& program) {
  std::vector<ProgramNodeId> found;
  for (const ProgramNodeId id : ids(program)) {
    if (std::holds_alternative<integer::Input>(program[id].op)) found.push_back(id);
  }
  return found;
}

}  // namespace qtape
