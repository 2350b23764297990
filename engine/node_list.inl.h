// Definitions of NodeList, for the sources that define a graph or a program.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "qtape/core/error.h"
#include "qtape/core/nearest.h"
#include "qtape/core/printable.h"
#include "qtape/engine/node_list.h"
#include "qtape/engine/print.h"

namespace qtape {

inline constexpr size_t max_described_operands = 16;

template <class Self, class Node>
const Node& NodeList<Self, Node>::operator[](Id id) const {
  check(id.index >= 0 && id.index < size(), "node %{} does not exist; the {} has {} nodes",
        id.index, Self::noun, size());
  return nodes_[qtape::at(id)];
}

template <class Self, class Node>
auto NodeList<Self, Node>::find(std::string_view label) const -> std::optional<Id> {
  const auto found = labels_.find(label);
  if (found == labels_.end()) return std::nullopt;
  return found->second;
}

template <class Self, class Node>
auto NodeList<Self, Node>::at(std::string_view label) const -> Id {
  const auto found = find(label);
  if (found) return *found;
  std::vector<std::string> labels;
  for (const auto& [each, id] : labels_) labels.push_back(each);
  fail<GraphError>("no node is called '{}'{}", printable(label), nearest_hint(label, labels));
}

template <class Self, class Node>
std::string NodeList<Self, Node>::name(Id id) const {
  const std::string& label = (*this)[id].label;
  return label.empty() ? fmt::format("%{}", id.index) : label;
}

template <class Self, class Node>
std::string NodeList<Self, Node>::reference(Id id) const {
  const std::string& label = (*this)[id].label;
  return label.empty() ? fmt::format("%{}", id.index)
                       : fmt::format("%{} '{}'", id.index, printable(label));
}

template <class Self, class Node>
std::string NodeList<Self, Node>::describe(Id id) const {
  const Node& node = (*this)[id];
  return describe(node.op, node.operands, node.label, id.index);
}

template <class Self, class Node>
template <class Op>
std::string NodeList<Self, Node>::describe(const Op& op, std::span<const Id> operands,
                                           std::string_view label, int64_t index) const {
  std::string text = fmt::format("{} %{}", name_of(op), index);
  if (!label.empty()) text += fmt::format(" '{}'", printable(label));
  if (operands.empty()) return text;
  text += " (";
  for (size_t i = 0; i < operands.size(); ++i) {
    const Id id = operands[i];
    if (i > 0) text += ", ";
    if (i == max_described_operands) {
      return text + fmt::format("... {} in all)", operands.size());
    }
    if (id.index < 0 || id.index >= size()) {
      text += fmt::format("%{}", id.index);
    } else {
      text += fmt::format("{} {}", reference(id), to_string(type_of((*this)[id])));
    }
  }
  return text + ")";
}

template <class Self, class Node>
void NodeList<Self, Node>::check_unused(const std::string& label) const {
  const auto used = labels_.find(label);
  if (used == labels_.end()) return;
  fail<GraphError>("label '{}' is already used by %{}", printable(label), used->second.index);
}

template <class Self, class Node>
void NodeList<Self, Node>::check_batch(int64_t extent) const {
  check(!batch_ || extent == *batch_, "batch extent is {}, but other inputs have {}", extent,
        batch_.value_or(0));
}

template <class Self, class Node>
auto NodeList<Self, Node>::append(Node node) -> Id {
  const Id id{static_cast<int32_t>(size())};
  if (!node.label.empty()) labels_.emplace(node.label, id);
  nodes_.push_back(std::move(node));
  return id;
}

template <class Self, class Node>
void NodeList<Self, Node>::replace_outputs(std::vector<Id> outputs) {
  for (Id id : outputs) (void)(*this)[id];
  outputs_ = std::move(outputs);
}

template <class Self, class Node>
template <class Input>
void NodeList<Self, Node>::append_with_batch(const Self& from, int64_t batch) {
  check(batch >= 1, "batch extent must be at least 1, got {}", batch);
  for (const Node& node : from.nodes()) {
    auto op = node.op;
    if (auto* input = std::get_if<Input>(&op); input != nullptr && input->batch) {
      input->shape = input->shape.with(0, batch);
    }
    static_cast<Self*>(this)->add(std::move(op), node.operands, node.label);
  }
  outputs_.assign(from.outputs().begin(), from.outputs().end());
}

}  // namespace qtape
