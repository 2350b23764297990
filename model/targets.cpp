#include "qtape/model/targets.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>
#include <string>

#include "qtape/engine/labels.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/program/output_names.h"
#include "qtape/integer/rules/rule_table.h"
#include "qtape/model/feed.h"

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

std::vector<std::string> names_of_answers(const Graph& graph) {
  std::vector<std::string> names;
  for (const NodeId id : graph.answers()) names.push_back(answer_name(graph, id));
  return names;
}

std::vector<std::string> names_of_answers(const IntegerProgram& program) {
  std::vector<std::string> names;
  for (const ProgramNodeId id : program.outputs()) names.push_back(output_name(program, id));
  return names;
}

std::vector<std::vector<size_t>> targets_of(const data::Dataset& dataset,
                                            std::span<const std::string> answers) {
  std::vector<size_t> left = target_columns(dataset);
  const bool paired = left.size() == answers.size();
  std::vector<std::vector<size_t>> found(answers.size());
  for (size_t i = 0; i < answers.size(); ++i) {
    const auto name = [&](size_t k) -> const auto& { return dataset.columns()[k].name; };
    auto named = std::ranges::find(left, answers[i], name);
    if (named == left.end()) named = std::ranges::find(left, answers[i] + ".target", name);
    if (named == left.end()) continue;
    found[i] = {*named};
    left.erase(named);
  }
  auto next = left.begin();
  for (std::vector<size_t>& each : found) {
    if (paired && each.empty()) each = {*next++};
  }
  if (!paired && !found.empty() && found[0].empty()) found[0] = left;
  return found;
}

namespace {

/// Nodes of losses that compare answers with inputs.
class Comparisons {
 public:
  explicit Comparisons(const Graph& graph)
      : graph_(graph), of_answers_(needed_for(graph, graph.answers())) {
    for (const NodeId answer : graph.answers())
      answers_[origin_of(graph, answer)].push_back(answer);
  }

  std::map<NodeId, Comparison> run() {
    const std::vector<bool> of_losses = needed_for(graph_, graph_.losses());
    for (const NodeId id : ids(graph_)) {
      const Op& op = graph_[id].op;
      if (!of_losses[at(id)]) continue;
      if (is_any<MeanSquaredError, SoftmaxCrossEntropy>(op)) add(id, found_, true);
      if (std::holds_alternative<Sub>(op) && !of_answers_[at(id)]) add(id, differences_, false);
    }
    for (const auto& [answer, each] : differences_) {
      if (!several_.contains(answer)) found_.emplace(answer, each);
    }
    return std::move(found_);
  }

 private:
  void add(NodeId id, std::map<NodeId, Comparison>& to, bool any_input) {
    const std::vector<NodeId>& operands = graph_[id].operands;
    for (const size_t target : {size_t{1}, size_t{0}}) {
      const NodeId given = origin_of(graph_, operands[target]);
      const auto* input = std::get_if<Input>(&graph_[given].op);
      const auto compared = answers_.find(origin_of(graph_, operands[1 - target]));
      if (input == nullptr || !input->batch || compared == answers_.end()) continue;
      if (!any_input && of_answers_[at(given)]) continue;
      for (const NodeId answer : compared->second) {
        const auto known = to.emplace(answer, Comparison{id, given}).first;
        if (known->second.input != given) several_.insert(answer);
      }
      return;
    }
  }

  const Graph& graph_;
  std::vector<bool> of_answers_;
  std::map<NodeId, std::vector<NodeId>> answers_;  // by the node of which they are views
  std::map<NodeId, Comparison> found_;
  std::map<NodeId, Comparison> differences_;
  std::set<NodeId> several_;  // answers with differences from several inputs
};

}  // namespace

std::map<NodeId, Comparison> comparisons(const Graph& graph) {
  return Comparisons(graph).run();
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
  const auto targets = targets_of(dataset, names_of_answers(graph));
  for (size_t i = 0; i < answers.size(); ++i) {
    const TensorType& type = graph[answers[i]].type;
    for (const size_t target : targets[i]) {
      const data::Column& column = dataset.columns()[target];
      const bool indices =
          indexed_classes(graph, answers[i]) > 0 && !is_float(column.sample.dtype);
      if (column.classes > 0 || indices || holds_classes(column, type)) return true;
      // The first target that fits is that of the answer.
      if (fits(column, {.sample = type.shape.without_first()})) break;
    }
  }
  return false;
}

}  // namespace qtape
