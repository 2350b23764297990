#include "qtape/engine/graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "qtape/engine/node_list.inl.h"
#include "qtape/ops/op_queries.h"
#include "qtape/ops/quantizer_ops.h"

namespace qtape {
namespace {

bool needs_label(const Op& op) {
  return std::holds_alternative<Input>(op) || is_persistent(op);
}

}  // namespace

template class NodeList<Graph, Node>;

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
  check(!label.empty() || !needs_label(op), "needs a label, by which it is found");
  check_unused(label);
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
    check(!use->second.writer, "state {} already has a writer: %{}", reference(operands[i]),
          use->second.writer.value_or(NodeId{}).index);
    const auto& early = slots[i].after_readers ? use->second.keeper : use->second.reader;
    check(!early, "state {} is read by %{}{} before this node writes it",
          reference(operands[i]), early.value_or(NodeId{}).index,
          slots[i].after_readers ? " and kept" : "");
  }
}

void Graph::note_states(std::span<const Slot> slots, const Keep& keep,
                        std::span<const NodeId> operands, NodeId id) {
  for (size_t i = 0; i < slots.size(); ++i) {
    if (!is_persistent((*this)[operands[i]].op)) continue;
    StateUse& use = states_[operands[i]];
    std::optional<NodeId>& user =
        slots[i].access == Access::ReadWrite ? use.writer : use.reader;
    if (!user) user = id;
    if ((keep.operand(i) || keep.view) && !use.keeper) use.keeper = id;
  }
}

TensorType Graph::infer(const Op& op, std::span<const NodeId> operands) const {
  std::vector<TensorType> inputs;
  inputs.reserve(operands.size());
  for (NodeId id : operands) inputs.push_back((*this)[id].type);
  const TensorType type = output_type(op, inputs);
  const auto* input = std::get_if<Input>(&op);
  if (input != nullptr && input->batch) check_batch(type.shape[0]);
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
    const std::vector<Slot> slots = slots_of(op);
    check_operands(slots, operands);
    check_label(op, label);
    check_states(slots, operands);
    const TensorType type = infer(op, operands);
    check_scales(slots, operands);
    const auto* input = std::get_if<Input>(&op);
    if (input != nullptr && input->batch) batch_ = type.shape[0];
    note_states(slots, keep_of(op), operands, id);
    return append({std::move(op), {operands.begin(), operands.end()}, std::move(label), type});
  } catch (const GraphError& error) {
    throw GraphError(describe(op, operands, label, id.index) + ": " + error.what());
  } catch (...) {
    remove_from(id.index);  // memory ran out
    throw;
  }
}

void Graph::remove_from(int64_t first) {
  const auto is_removed = [&](std::optional<NodeId> id) { return id && id->index >= first; };
  std::erase_if(states_, [&](const auto& state) { return is_removed(state.first); });
  for (auto& [state, use] : states_) {
    for (std::optional<NodeId>* user : {&use.writer, &use.reader, &use.keeper}) {
      if (is_removed(*user)) user->reset();
    }
  }
  std::erase_if(labels_, [&](const auto& label) { return is_removed(label.second); });
  nodes_.shorten(static_cast<size_t>(first));
  const bool batched = std::ranges::any_of(nodes_, [](const Node& node) {
    const auto* input = std::get_if<Input>(&node.op);
    return input != nullptr && input->batch;
  });
  if (!batched) batch_.reset();
}

void Graph::set_outputs(std::vector<NodeId> outputs) {
  replace_outputs(std::move(outputs));
  losses_.reset();
}

void Graph::set_outputs(std::vector<NodeId> outputs, const std::vector<NodeId>& losses) {
  for (NodeId id : losses) {
    const TensorType& type = (*this)[id].type;
    check(std::ranges::count(outputs, id) > 0, "{}: a loss must be one of the outputs",
          describe(id));
    check(std::ranges::count(losses, id) == 1, "{}: a loss may be listed only once",
          describe(id));
    check(type.elements() == 1 && is_compute(type.dtype),
          "{}: a loss must be one number of f32 or f64, got {}", describe(id), to_string(type));
  }
  set_outputs(std::move(outputs));
  losses_ = losses;
}

void Graph::copy_outputs(const Graph& from, const NodeMap<NodeId>& copies) {
  const auto copied = [&](const std::vector<NodeId>& ids) {
    std::vector<NodeId> all;
    for (NodeId id : ids) all.push_back(copies[id]);
    return all;
  };
  if (from.losses_) {
    set_outputs(copied(from.outputs_), copied(*from.losses_));
  } else {
    set_outputs(copied(from.outputs_));
  }
}

bool Graph::depends_on_parameters(NodeId id) const {
  std::vector<bool> needed(qtape::at(id) + 1);
  needed.back() = true;
  for (int32_t i = id.index; i >= 0; --i) {
    if (!needed[static_cast<size_t>(i)]) continue;
    const Node& node = (*this)[NodeId{i}];
    if (std::holds_alternative<Parameter>(node.op)) return true;
    for (NodeId operand : node.operands) needed[qtape::at(operand)] = true;
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
  Graph result;
  result.append_with_batch<Input>(*this, batch);
  result.losses_ = losses_;
  return result;
}

std::string to_string(const Graph& graph) {
  std::string text;
  for (const NodeId id : ids(graph)) {
    const Node& node = graph[id];
    text += fmt::format("{} {} = {}", graph.reference(id), to_string(node.type),
                        to_string(node.op));
    for (size_t k = 0; k < node.operands.size(); ++k) {
      text += fmt::format("{}{}", k == 0 ? " (" : ", ", graph.reference(node.operands[k]));
    }
    text += node.operands.empty() ? "\n" : ")\n";
  }
  return text;
}

std::vector<bool> needed_for(const Graph& graph, std::span<const NodeId> outputs) {
  std::vector<bool> needed(static_cast<size_t>(graph.size()));
  for (NodeId id : outputs) {
    (void)graph[id];
    needed[at(id)] = true;
  }
  for (int32_t i = static_cast<int32_t>(graph.size()) - 1; i >= 0; --i) {
    if (!needed[static_cast<size_t>(i)]) continue;
    for (NodeId id : graph[NodeId{i}].operands) needed[at(id)] = true;
  }
  return needed;
}

}  // namespace qtape
