#include "qtape/engine/graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "qtape/core/nearest.h"
#include "qtape/core/printable.h"
#include "qtape/engine/print.h"
#include "qtape/ops/quantizer_ops.h"

namespace qtape {
namespace {

std::string reference(const Graph& graph, NodeId id) {
  const std::string& label = graph[id].label;
  return label.empty() ? fmt::format("%{}", id.index)
                       : fmt::format("%{} '{}'", id.index, printable(label));
}

constexpr size_t max_described = 16;  // maximum number of operands shown

bool needs_label(const Op& op) {
  return std::holds_alternative<Input>(op) || is_persistent(op);
}

}  // namespace

std::string Graph::describe(const Op& op, std::span<const NodeId> operands,
                            std::string_view label, int64_t index) const {
  std::string text = fmt::format("{} %{}", name_of(op), index);
  if (!label.empty()) text += fmt::format(" '{}'", printable(label));
  if (operands.empty()) return text;
  text += " (";
  for (size_t i = 0; i < operands.size(); ++i) {
    const NodeId id = operands[i];
    if (i > 0) text += ", ";
    if (i == max_described) return text + fmt::format("... {} in all)", operands.size());
    if (id.index < 0 || id.index >= size()) {
      text += fmt::format("%{}", id.index);
    } else {
      text += fmt::format("{} {}", reference(*this, id), to_string((*this)[id].type));
    }
  }
  return text + ")";
}

std::string Graph::name(NodeId id) const {
  const std::string& label = (*this)[id].label;
  return label.empty() ? fmt::format("%{}", id.index) : label;
}

std::string Graph::describe(NodeId id) const {
  const Node& node = (*this)[id];
  return describe(node.op, node.operands, node.label, id.index);
}

void Graph::check_operands(std::span<const Slot> slots,
                           std::span<const NodeId> operands) const {
  for (NodeId id : operands) {
    check(id.index >= 0 && id.index < size(),
          "operand %{} does not exist; the graph has {} nodes", id.index, size());
  }
  if (operands.size() < slots.size()) {
    fail<GraphError>("operand '{}' is missing: expected {} operands, got {}",
                     slots[operands.size()].name, slots.size(), operands.size());
  }
  check(operands.size() == slots.size(), "expected {} operands, got {}", slots.size(),
        operands.size());
}

void Graph::check_label(const Op& op, const std::string& label) const {
  check(!label.empty() || !needs_label(op), "a label is required to look it up");
  const auto used = labels_.find(label);
  if (used == labels_.end()) return;
  fail<GraphError>("label '{}' is already used by %{}", printable(label), used->second.index);
}

void Graph::check_states(std::span<const Slot> slots, std::span<const NodeId> operands) const {
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].access != Access::ReadWrite) continue;
    check(
        is_persistent((*this)[operands[i]].op) &&
            (slots[i].differentiable || std::holds_alternative<State>((*this)[operands[i]].op)),
        "operand '{}' is written and must be a {}, got {}", slots[i].name,
        slots[i].differentiable ? "Parameter or a State" : "State",
        name_of((*this)[operands[i]].op));
    const auto use = states_.find(operands[i]);
    if (use == states_.end()) continue;
    check(!use->second.writer, "state {} already has a writer: %{}",
          reference(*this, operands[i]), use->second.writer.value_or(NodeId{}).index);
    const auto& early = slots[i].after_readers ? use->second.keeper : use->second.reader;
    check(!early, "state {} is read by %{}{} before this node writes it",
          reference(*this, operands[i]), early.value_or(NodeId{}).index,
          slots[i].after_readers ? " and kept" : "");
  }
}

void Graph::note_states(std::span<const Slot> slots, const Keep& keep,
                        std::span<const NodeId> operands, NodeId id) {
  for (size_t i = 0; i < slots.size(); ++i) {
    if (!is_persistent((*this)[operands[i]].op)) continue;
    StateUse& use = states_[operands[i]];
    (slots[i].access == Access::ReadWrite ? use.writer : use.reader) = id;
    if (keep.operand(i) || keep.view) use.keeper = id;
  }
}

TensorType Graph::infer(const Op& op, std::span<const NodeId> operands) const {
  std::vector<TensorType> inputs;
  inputs.reserve(operands.size());
  for (NodeId id : operands) inputs.push_back((*this)[id].type);
  const TensorType type = std::visit([&](const auto& each) { return each.infer(inputs); }, op);
  if (const auto* input = std::get_if<Input>(&op); input != nullptr && input->batch && batch_) {
    check(type.shape[0] == *batch_, "batch extent is {}, but other inputs have {}",
          type.shape[0], *batch_);
  }
  return type;
}

void Graph::check_scales(std::span<const Slot> slots, std::span<const NodeId> operands) const {
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].scales == Scales::None) continue;
    const Op& op = (*this)[operands[i]].op;
    check(is_quantizer(op), "operand '{}' must be a quantizer, got {}", slots[i].name,
          name_of(op));
    const TensorType& x = (*this)[(*this)[operands[i]].operands[0]].type;
    const int64_t scales = granularity_of(op).scales_shape(x.shape).elements();
    if (slots[i].scales == Scales::One) {
      check(scales == 1, "operand '{}' must have one scale, got {}", slots[i].name, scales);
      continue;
    }
    const int64_t each = (*this)[operands[0]].type.elements();
    check(scales == 1 || scales == each,
          "operand '{}' must have one scale or {}, one for each element of '{}', got {}",
          slots[i].name, each, slots[0].name, scales);
  }
}

NodeId Graph::add(Op op, std::span<const NodeId> operands, std::string label) {
  const NodeId id{static_cast<int32_t>(size())};
  try {
    const std::vector<Slot> slots =
        std::visit([](const auto& each) { return each.slots(); }, op);
    check_operands(slots, operands);
    check_label(op, label);
    check_states(slots, operands);
    const TensorType type = infer(op, operands);
    check_scales(slots, operands);
    const auto* input = std::get_if<Input>(&op);
    if (input != nullptr && input->batch) batch_ = type.shape[0];
    note_states(slots, std::visit([](const auto& each) { return each.keep(); }, op), operands,
                id);
    if (!label.empty()) labels_.emplace(label, id);
    nodes_.push_back(
        {std::move(op), {operands.begin(), operands.end()}, std::move(label), type});
  } catch (const GraphError& error) {
    throw GraphError(describe(op, operands, label, id.index) + ": " + error.what());
  }
  return id;
}

const Node& Graph::operator[](NodeId id) const {
  check(id.index >= 0 && id.index < size(), "node %{} does not exist; the graph has {} nodes",
        id.index, size());
  return nodes_[static_cast<size_t>(id.index)];
}

std::optional<NodeId> Graph::find(std::string_view label) const {
  const auto found = labels_.find(label);
  if (found == labels_.end()) return std::nullopt;
  return found->second;
}

NodeId Graph::at(std::string_view label) const {
  const auto found = find(label);
  if (found) return *found;
  std::vector<std::string> labels;
  for (const auto& [each, id] : labels_) labels.push_back(each);
  fail<GraphError>("no node is called '{}'{}", printable(label), nearest_hint(label, labels));
}

void Graph::set_outputs(std::vector<NodeId> outputs) {
  for (NodeId id : outputs) (void)(*this)[id];
  outputs_ = std::move(outputs);
  losses_.reset();
}

void Graph::set_outputs(std::vector<NodeId> outputs, const std::vector<NodeId>& losses) {
  for (NodeId id : losses) {
    const TensorType& type = (*this)[id].type;
    check(std::ranges::count(outputs, id) > 0, "{}: a loss must be one of the outputs",
          describe(id));
    check(type.elements() == 1 && is_compute(type.dtype),
          "{}: a loss must be one number of f32 or f64, got {}", describe(id), to_string(type));
  }
  set_outputs(std::move(outputs));
  losses_ = losses;
}

void Graph::copy_outputs(const Graph& from, const std::function<NodeId(NodeId)>& copy_of) {
  const auto copies = [&](const std::vector<NodeId>& ids) {
    std::vector<NodeId> all;
    for (NodeId id : ids) all.push_back(copy_of(id));
    return all;
  };
  if (from.losses_) {
    set_outputs(copies(from.outputs_), copies(*from.losses_));
  } else {
    set_outputs(copies(from.outputs_));
  }
}

bool Graph::depends_on_parameters(NodeId id) const {
  std::vector<bool> needed(static_cast<size_t>(id.index) + 1);
  needed.back() = true;
  for (int32_t i = id.index; i >= 0; --i) {
    if (!needed[static_cast<size_t>(i)]) continue;
    const Node& node = (*this)[NodeId{i}];
    if (std::holds_alternative<Parameter>(node.op)) return true;
    for (NodeId operand : node.operands) needed[static_cast<size_t>(operand.index)] = true;
  }
  return false;
}

std::vector<NodeId> Graph::losses() const {
  if (losses_) return *losses_;
  std::vector<NodeId> found;
  for (size_t i = 1; i < outputs_.size(); ++i) {
    const TensorType& type = (*this)[outputs_[i]].type;
    const bool number = type.shape.rank() == 0 && is_compute(type.dtype);
    const bool first = outputs_[i] == outputs_[0];
    if (number && !first && depends_on_parameters(outputs_[i])) found.push_back(outputs_[i]);
  }
  return found;
}

std::vector<NodeId> Graph::answers() const {
  const std::vector<NodeId> losses = this->losses();
  std::vector<NodeId> found;
  for (NodeId id : outputs_) {
    if (std::ranges::count(losses, id) == 0) found.push_back(id);
  }
  return found;
}

Graph Graph::with_batch(int64_t batch) const {
  check(batch >= 1, "batch extent must be at least 1, got {}", batch);
  Graph result;
  for (const Node& node : nodes_) {
    Op op = node.op;
    if (auto* input = std::get_if<Input>(&op); input != nullptr && input->batch) {
      input->shape = input->shape.with(0, batch);
    }
    result.add(std::move(op), node.operands, node.label);
  }
  result.outputs_ = outputs_;
  result.losses_ = losses_;
  return result;
}

std::string to_string(const Graph& graph) {
  std::string text;
  for (const NodeId id : ids(graph)) {
    const Node& node = graph[id];
    text += fmt::format("{} {} = {}", reference(graph, id), to_string(node.type),
                        to_string(node.op));
    for (size_t k = 0; k < node.operands.size(); ++k) {
      text += fmt::format("{}{}", k == 0 ? " (" : ", ", reference(graph, node.operands[k]));
    }
    text += node.operands.empty() ? "\n" : ")\n";
  }
  return text;
}

}  // namespace qtape
