#include "qtape/integer/program/integer_program.h"

#include <fmt/format.h>

#include "qtape/core/nearest.h"
#include "qtape/core/printable.h"
#include "qtape/engine/json_file.h"
#include "qtape/engine/print_fields.h"

namespace qtape {
namespace {

constexpr size_t max_described = 16;  // operands

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
  std::vector<std::string> lines;
  for (const IntegerNode& node : program.nodes()) lines.push_back(write_node(node).dump());
  append_lines(text, "program", '[', ']', lines);
  return text + ",\n\"outputs\": " + write_ids(program.outputs()) + "\n}\n";
}

}  // namespace

std::string IntegerProgram::describe(const IntegerOp& op, std::span<const NodeId> operands,
                                     std::string_view label, int64_t index) const {
  std::string text = fmt::format("{} %{}", name_of(op), index);
  if (!label.empty()) text += fmt::format(" '{}'", printable(label));
  for (size_t i = 0; i < operands.size(); ++i) {
    const NodeId id = operands[i];
    text += i == 0 ? " (" : ", ";
    if (i == max_described) return text + fmt::format("... {} in all)", operands.size());
    text += fmt::format("%{}", id.index);
    if (id.index < 0 || id.index >= size()) continue;
    const IntegerNode& node = (*this)[id];
    if (!node.label.empty()) text += fmt::format(" '{}'", printable(node.label));
    text += " " + to_string(node.value.type);
  }
  return operands.empty() ? text : text + ")";
}

std::string IntegerProgram::describe(NodeId id) const {
  const IntegerNode& node = (*this)[id];
  return describe(node.op, node.operands, node.label, id.index);
}

std::string IntegerProgram::name(NodeId id) const {
  const std::string& label = (*this)[id].label;
  return label.empty() ? fmt::format("%{}", id.index) : label;
}

IntegerValue IntegerProgram::infer(const IntegerOp& op,
                                   std::span<const NodeId> operands) const {
  std::vector<IntegerValue> inputs;
  for (NodeId id : operands) inputs.push_back((*this)[id].value);
  IntegerValue value = std::visit([&](const auto& each) { return each.infer(inputs); }, op);
  const auto* input = std::get_if<integer::Input>(&op);
  if (input != nullptr && input->batch && batch_) {
    check(value.type.shape[0] == *batch_, "batch extent is {}, but other inputs have {}",
          value.type.shape[0], *batch_);
  }
  return value;
}

NodeId IntegerProgram::add(IntegerOp op, std::span<const NodeId> operands, std::string label) {
  const NodeId id{static_cast<int32_t>(size())};
  try {
    for (NodeId operand : operands) (void)(*this)[operand];
    const auto* input = std::get_if<integer::Input>(&op);
    check(input == nullptr || !label.empty(), "a label is required to look it up");
    if (labels_.contains(label)) {
      fail<GraphError>("label '{}' is already used", printable(label));
    }
    IntegerValue value = infer(op, operands);
    if (input != nullptr && input->batch) batch_ = value.type.shape[0];
    if (!label.empty()) labels_.emplace(label, id);
    nodes_.push_back({std::move(op),
                      {operands.begin(), operands.end()},
                      std::move(label),
                      std::move(value)});
  } catch (const Error& error) {
    throw GraphError(describe(op, operands, label, id.index) + ": " + error.what());
  }
  return id;
}

const IntegerNode& IntegerProgram::operator[](NodeId id) const {
  check(id.index >= 0 && id.index < size(), "node %{} does not exist; the program has {} nodes",
        id.index, size());
  return nodes_[static_cast<size_t>(id.index)];
}

std::optional<NodeId> IntegerProgram::find(std::string_view label) const {
  const auto found = labels_.find(label);
  if (found == labels_.end()) return std::nullopt;
  return found->second;
}

NodeId IntegerProgram::at(std::string_view label) const {
  const auto found = find(label);
  if (found) return *found;
  std::vector<std::string> labels;
  for (const auto& [each, id] : labels_) labels.push_back(each);
  fail<GraphError>("no node is called '{}'{}", printable(label), nearest_hint(label, labels));
}

void IntegerProgram::set_outputs(std::vector<NodeId> outputs) {
  for (NodeId id : outputs) (void)(*this)[id];
  outputs_ = std::move(outputs);
}

IntegerProgram IntegerProgram::with_batch(int64_t batch) const {
  check(batch >= 1, "batch extent must be at least 1, got {}", batch);
  IntegerProgram result(requantization_);
  for (const IntegerNode& node : nodes_) {
    IntegerOp op = node.op;
    if (auto* input = std::get_if<integer::Input>(&op); input != nullptr && input->batch) {
      input->shape = input->shape.with(0, batch);
    }
    result.add(std::move(op), node.operands, node.label);
  }
  result.outputs_ = outputs_;
  return result;
}

std::string to_string(const IntegerProgram& program) {
  std::string text =
      fmt::format("requantization {}\n", to_string_view(program.requantization()));
  const auto reference = [&](NodeId id) {
    const std::string& label = program[id].label;
    return label.empty() ? fmt::format("%{}", id.index)
                         : fmt::format("%{} '{}'", id.index, printable(label));
  };
  for (const NodeId id : ids(program)) {
    const IntegerNode& node = program[id];
    text +=
        fmt::format("{} {} = {}", reference(id), to_string(node.value.type), op_text(node.op));
    for (size_t k = 0; k < node.operands.size(); ++k) {
      text += (k == 0 ? " (" : ", ") + reference(node.operands[k]);
    }
    text += (node.operands.empty() ? "" : ")") + value_text_of(node.value) + "\n";
    if (const QuantizedWeights* w = weights_of(node.op)) {
      text += fmt::format("   proven: {}\n", to_string(w->certificate));
    }
  }
  return text;
}

std::string to_json(const IntegerProgram& program) {
  try {
    return program_text(program);
  } catch (const NotUtf8&) {
    fail<FormatError>("/: a label is not UTF-8");
  }
}

IntegerProgram program_from_json(std::string_view text) {
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

}  // namespace qtape
