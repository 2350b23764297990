#include "qtape/model/targets.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>

#include "qtape/integer/program/integer_node.h"

namespace qtape {
namespace {

/// Returns the node whose elements, moved by nodes of `Moves`, are `id`.
template <class... Moves, class Nodes>
IdIn<Nodes> moved_from(const Nodes& nodes, IdIn<Nodes> id) {
  while ((std::holds_alternative<Moves>(nodes[id].op) || ...)) id = nodes[id].operands[0];
  return id;
}

}  // namespace

std::vector<size_t> target_columns(const data::Dataset& dataset) {
  std::vector<size_t> found;
  for (size_t i = 0; i < dataset.columns().size(); ++i) {
    if (dataset.columns()[i].target) found.push_back(i);
  }
  return found;
}

std::optional<size_t> target_of(const data::Dataset& dataset, size_t index, size_t answers) {
  const std::vector<size_t> targets = target_columns(dataset);
  if (targets.size() == answers) return targets[index];
  return index == 0 ? dataset.target() : std::nullopt;
}

void require_classes(const data::Dataset& dataset, size_t column, int64_t classes) {
  const int64_t given = dataset.columns()[column].classes;
  if (given <= classes) return;
  std::string where;
  for (int64_t sample = 0; sample < dataset.size() && where.empty(); ++sample) {
    int32_t label = 0;
    dataset.read(column, sample, std::span(&label, 1));
    if (label >= classes) where = fmt::format(": sample {} has label {}", sample, label);
  }
  fail<ArgumentError>("the data have {} classes, the model has {}{}{}", given, classes, where,
                      classes <= 2 ? "; if they are values, give floats" : "");
}

bool holds_classes(const data::Column& target, const TensorType& answer) {
  const Shape& shape = answer.shape;
  if (target.classes > 0) {
    const auto extents = shape.extents();
    return !extents.empty() && std::ranges::count_if(extents.subspan(1), [](int64_t each) {
                                 return each != 1;
                               }) <= 1;
  }
  const auto places = target.sample.shape.extents();
  if (is_float(target.sample.dtype) || places.empty()) return false;
  if (shape.rank() != target.sample.shape.rank() + 2 || shape[-1] < 2) return false;
  return std::ranges::equal(places, shape.extents().subspan(1, places.size()));
}

int64_t indexed_classes(const Graph& graph, NodeId answer) {
  const Node& node = graph[moved_from<Cast, Reshape, Flatten, Transpose>(graph, answer)];
  const auto* op = std::get_if<ArgMax>(&node.op);
  if (op == nullptr) return 0;
  const Shape& scores = graph[node.operands[0]].type.shape;
  return scores[resolve_axis(op->axis, scores)];
}

int64_t indexed_classes(const IntegerProgram& program, ProgramNodeId answer) {
  const IntegerNode& node =
      program[moved_from<integer::Dequantize, integer::Reshape, integer::Transpose>(program,
                                                                                    answer)];
  const auto* op = std::get_if<integer::ArgMax>(&node.op);
  if (op == nullptr) return 0;
  const Shape& scores = program[node.operands[0]].value.type.shape;
  return scores[resolve_axis(op->axis, scores)];
}

bool compares_classes(const Graph& graph, const data::Dataset& dataset) {
  const std::vector<NodeId> answers = graph.answers();
  for (size_t i = 0; i < answers.size(); ++i) {
    const auto target = target_of(dataset, i, answers.size());
    if (!target) continue;
    const data::Column& column = dataset.columns()[*target];
    const bool indices =
        indexed_classes(graph, answers[i]) > 0 && !is_float(column.sample.dtype);
    if (column.classes > 0 || indices || holds_classes(column, graph[answers[i]].type)) {
      return true;
    }
  }
  return false;
}

}  // namespace qtape
