#include "qtape/model/metric.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "qtape/core/code_types.h"
#include "qtape/core/error.h"
#include "qtape/core/printable.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/rules/rule_table.h"
#include "qtape/model/area_under_curve.h"
#include "qtape/model/feed.h"
#include "qtape/model/passes/last_softmax.h"
#include "qtape/model/targets.h"

namespace qtape {
namespace {

/// A network, as input of the choice of a metric.
struct Answered {
  std::vector<FedInput> inputs;  // without memory
  TensorType answers;            // for one batch
  const data::Dataset& dataset;
  std::vector<size_t> targets;  // columns with which the answer may be compared
  bool first = true;            // the first of several answers
  int64_t indexed = 0;          // as of MetricChoice

  const data::Column& column(size_t target) const { return dataset.columns()[target]; }
};

/// Returns an answer of several, `all`, of a graph or a program, with its targets.
template <class Nodes, class Id>
Answered answered(const Nodes& nodes, std::vector<FedInput> inputs, const TensorType& type,
                  const data::Dataset& dataset, std::span<const Id> all, Id answer) {
  const auto found = std::ranges::find(all, answer);
  const bool known = found != all.end();
  const auto index = known ? static_cast<size_t>(found - all.begin()) : size_t{0};
  std::vector<std::string> names = names_of_answers(nodes);
  names.resize(std::max<size_t>(1, names.size()));
  return {.inputs = std::move(inputs),
          .answers = type,
          .dataset = dataset,
          .targets = targets_of(dataset, names)[index],
          .first = index == 0,
          .indexed = indexed_classes(nodes, answer)};
}

/// Returns the column that fills each input of a graph, by label.
std::map<std::string, size_t> columns_of(const Graph& graph, const data::Dataset& dataset) {
  const std::vector<FedInput> inputs = inputs_for(graph, {});
  const std::vector<size_t> columns = columns_for(inputs, dataset);
  std::map<std::string, size_t> found;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (columns[i] != no_column) found[inputs[i].label] = columns[i];
  }
  return found;
}

/// Returns the column with which a loss compares each answer, and the node that does.
std::map<NodeId, std::pair<size_t, NodeId>> compared_by_losses(const Graph& graph,
                                                               const data::Dataset& dataset) {
  const std::map<std::string, size_t> columns = columns_of(graph, dataset);
  std::map<NodeId, std::pair<size_t, NodeId>> found;
  for (const auto& [answer, each] : comparisons(graph)) {
    const auto column = columns.find(graph[each.input].label);
    if (column != columns.end()) found.emplace(answer, std::pair(column->second, each.node));
  }
  return found;
}

/// Returns an answer of a graph with its targets, without those of the losses of other answers.
Answered answered(const Graph& graph, NodeId answer, const data::Dataset& dataset) {
  const std::vector<NodeId> all = graph.answers();
  Answered made = answered(graph, inputs_for(graph, std::span(&answer, 1)), graph[answer].type,
                           dataset, std::span<const NodeId>(all), answer);
  for (const auto& [other, compared] : compared_by_losses(graph, dataset)) {
    if (other != answer) std::erase(made.targets, compared.first);
  }
  return made;
}

/// Returns the column that fills input `which`; nullopt if the data do not fit.
std::optional<size_t> column_of(const Answered& answered, size_t which) {
  try {
    return columns_for(answered.inputs, answered.dataset)[which];
  } catch (const ArgumentError&) {
    return std::nullopt;
  }
}

std::optional<MetricChoice> squared_error(const std::optional<size_t>& column) {
  if (!column) return std::nullopt;
  return MetricChoice{MetricKind::MeanSquaredError, *column};
}

/// True for a target with the shape of an answer that is not labels of samples.
bool holds_values(const Answered& answered, size_t target) {
  const data::Column& column = answered.column(target);
  return column.classes == 0 &&
         fits(column, {.sample = answered.answers.shape.without_first()});
}

/// Returns the first target that holds values of an answer or, without a target, the first
/// input with its shape.
std::optional<size_t> compared_column(const Answered& answered) {
  for (const size_t target : answered.targets) {
    if (holds_values(answered, target)) return target;
  }
  if (!answered.first || answered.dataset.target()) return std::nullopt;
  const Shape sample = answered.answers.shape.without_first();
  const auto same = std::ranges::find_if(answered.inputs, [&](const FedInput& each) {
    return each.needed && each.integers.empty() && each.sample == sample;
  });
  if (same == answered.inputs.end()) return std::nullopt;
  return column_of(answered, static_cast<size_t>(same - answered.inputs.begin()));
}

/// Returns the accuracy by a target of classes, or of indices of these; nullopt for another
/// one.
std::optional<MetricChoice> accuracy_by(const Answered& answered, size_t target) {
  const data::Column& column = answered.column(target);
  const int64_t elements = answered.answers.shape.without_first().elements();
  if (answered.indexed > 0 && !is_float(column.sample.dtype) &&
      column.sample.elements() == elements) {
    return MetricChoice{MetricKind::Accuracy, target, 0, answered.indexed};
  }
  if (!holds_classes(column, answered.answers)) return std::nullopt;
  return MetricChoice{MetricKind::Accuracy, target};
}

/// Returns the accuracy by the first target of classes.
std::optional<MetricChoice> accuracy_of(const Answered& answered) {
  for (const size_t target : answered.targets) {
    if (const auto found = accuracy_by(answered, target)) return found;
  }
  return std::nullopt;
}

/// Returns the metric for the first target that fits, or for an input.
std::optional<MetricChoice> choose_by_data(const Answered& answered) {
  if (answered.answers.shape.rank() == 0) return std::nullopt;
  for (const size_t target : answered.targets) {
    if (const auto found = accuracy_by(answered, target)) return found;
    if (holds_values(answered, target)) return squared_error(target);
  }
  return squared_error(compared_column(answered));
}

/// True if a metric compares answers with labels.
bool by_labels(MetricKind kind) {
  return kind == MetricKind::Accuracy || kind == MetricKind::AreaUnderCurve;
}

/// Returns the threshold of an answer of one number, see MetricChoice.
float threshold_of(const Graph& graph, NodeId answer) {
  return last_sigmoid(graph, answer) ? 0.5f : 0.0f;
}

/// True for a table of values from 0 to 1, as that of a Sigmoid.
bool holds_probabilities(const integer::Lookup& op) {
  return dispatch_codes(op.grid.dtype, [&]<class T>() {
    const auto [low, high] = std::ranges::minmax(op.table.values<T>());
    const auto decoded = [&](T code) {
      return op.grid.scale *
             (static_cast<double>(code) - static_cast<double>(op.grid.zero_point));
    };
    // The grid need not have a code for 1.
    return decoded(low) >= 0 && decoded(high) <= 1.01;
  });
}

float threshold_of(const IntegerProgram& program, ProgramNodeId output) {
  while (std::holds_alternative<integer::Reshape>(program[output].op) ||
         std::holds_alternative<integer::Dequantize>(program[output].op)) {
    output = program[output].operands[0];
  }
  const auto* lookup = std::get_if<integer::Lookup>(&program[output].op);
  return lookup != nullptr && holds_probabilities(*lookup) ? 0.5f : 0.0f;
}

/// Returns the metric by the input with which a loss compares the answer, if there is one.
std::optional<MetricChoice> choose_by_loss(const Graph& graph, NodeId answer,
                                           const data::Dataset& dataset) {
  const auto all = compared_by_losses(graph, dataset);
  const auto found = all.find(answer);
  if (found == all.end()) return std::nullopt;
  const auto& [column, node] = found->second;
  if (!std::holds_alternative<SoftmaxCrossEntropy>(graph[node].op)) {
    return squared_error(column);
  }
  if (!holds_classes(dataset.columns()[column], graph[answer].type)) return std::nullopt;
  return MetricChoice{MetricKind::Accuracy, column};
}

}  // namespace

std::string Metric::text(double score) const {
  return digits ? fmt::format("{:.{}f}{}", score, *digits, unit)
                : fmt::format("{:.4g}{}", score, unit);
}

Metric metric_of(MetricKind kind) {
  Metric metric{.name = std::string(to_string_view(kind))};
  switch (kind) {
    case MetricKind::Accuracy:
      metric.unit = " %";
      break;
    case MetricKind::MeanSquaredError:
    case MetricKind::MeanAbsoluteError:
      metric.digits.reset();
      metric.higher_is_better = false;
      break;
    case MetricKind::AreaUnderCurve:
      metric.digits = 4;
      break;
  }
  return metric;
}

std::string to_string(const MetricScore& score) {
  const Metric metric = metric_of(score.metric);
  return metric.name + " " + metric.text(score.value);
}

std::optional<MetricChoice> choose_metric(const Graph& graph, NodeId answer,
                                          const data::Dataset& dataset) {
  auto choice = choose_by_loss(graph, answer, dataset);
  if (!choice) choice = choose_by_data(answered(graph, answer, dataset));
  if (choice) choice->threshold = threshold_of(graph, answer);
  return choice;
}

MetricChoice choose_metric(const Graph& graph, NodeId answer, const data::Dataset& dataset,
                           MetricKind wanted) {
  const Answered given = answered(graph, answer, dataset);
  const int rank = given.answers.shape.rank();
  std::optional<MetricChoice> found;
  if (!by_labels(wanted)) {
    found = choose_by_loss(graph, answer, dataset);
    if (!found && rank > 0) found = squared_error(compared_column(given));
    require<ArgumentError>(found.has_value(),
                           "the {} needs a target, or an input, in the shape of an answer",
                           to_string_view(wanted));
    return {wanted, found->column};
  }
  found = choose_by_loss(graph, answer, dataset);
  if (!found || found->kind != MetricKind::Accuracy) found = accuracy_of(given);
  const bool known =
      found && (wanted == MetricKind::Accuracy ||
                (found->indexed == 0 && dataset.columns()[found->column].classes > 0));
  require<ArgumentError>(known,
                         "the {} needs data with labels and a model that answers "
                         "[batch, classes]",
                         to_string_view(wanted));
  found->kind = wanted;
  found->threshold = threshold_of(graph, answer);
  return *found;
}

std::optional<MetricChoice> choose_metric(const IntegerProgram& program, ProgramNodeId output,
                                          const data::Dataset& dataset) {
  auto choice =
      choose_by_data(answered(program, inputs_for(program), program[output].value.type, dataset,
                              program.outputs(), output));
  if (choice) choice->threshold = threshold_of(program, output);
  return choice;
}

int64_t predicted(std::span<const float> scores, float threshold) {
  if (std::ranges::any_of(scores, [](float each) { return std::isnan(each); })) return -1;
  if (scores.size() == 1) return scores[0] > threshold ? 1 : 0;
  return std::ranges::max_element(scores) - scores.begin();
}

int64_t predicted(std::span<const float> answer, const MetricChoice& choice) {
  if (choice.indexed == 0) return predicted(answer, choice.threshold);
  return std::isfinite(answer[0]) ? std::llround(answer[0]) : -1;
}

int64_t places_of(const MetricChoice& choice, const data::Dataset& dataset) {
  if (choice.kind != MetricKind::Accuracy) return 1;
  return dataset.columns()[choice.column].sample.shape.elements();
}

Scorer::Scorer(const MetricChoice& choice, const data::Dataset& dataset, int64_t width)
    : choice_(choice),
      dataset_(dataset),
      width_(static_cast<size_t>(width)),
      target_(by_labels(choice.kind) ? 0 : width_) {
  require<ArgumentError>(choice.column < dataset.columns().size(),
                         "the data have {} columns, got column {}", dataset.columns().size(),
                         choice.column);
  const int64_t places = by_labels(choice.kind)
                             ? places_of(choice, dataset)
                             : dataset.columns()[choice.column].sample.elements();
  require<ArgumentError>(width >= 1 && places >= 1 &&
                             (by_labels(choice.kind) ? width % places == 0 : width == places),
                         "answers of {} numbers do not fit {} {}", width, places,
                         by_labels(choice.kind) ? "labels" : "numbers of the target");
  if (!by_labels(choice.kind)) return;
  labels_.resize(static_cast<size_t>(places));
  const int64_t classes = dataset.columns()[choice.column].classes;
  require_classes(dataset, choice.column, choice.classes(width));
  require<ArgumentError>(choice.kind == MetricKind::Accuracy || (classes == 2 && width <= 2),
                         "the AUC needs labels of 2 classes and answers of 1 or 2 numbers, got "
                         "{} and {}",
                         classes, width);
}

void Scorer::add(int64_t first, int64_t count, std::span<const float> answers) {
  require<ArgumentError>(count >= 0 && answers.size() == static_cast<size_t>(count) * width_,
                         "expected {} answers of {} numbers, got {} numbers", count, width_,
                         answers.size());
  samples_ += count;
  for (int64_t row = 0; row < count; ++row) {
    const auto answer = answers.subspan(static_cast<size_t>(row) * width_, width_);
    if (by_labels(choice_.kind)) {
      add_labelled(first + row, answer);
      continue;
    }
    dataset_.read(choice_.column, first + row, std::span(target_));
    for (size_t i = 0; i < width_; ++i) {
      const double difference = double{answer[i]} - double{target_[i]};
      const bool squared = choice_.kind == MetricKind::MeanSquaredError;
      sum_ += squared ? difference * difference : std::fabs(difference);
    }
  }
}

void Scorer::add_labelled(int64_t sample, std::span<const float> answer) {
  dataset_.read(choice_.column, sample, std::span(labels_));
  if (choice_.kind == MetricKind::Accuracy) {
    const size_t scores = width_ / labels_.size();
    const int64_t classes = choice_.classes(static_cast<int64_t>(scores));
    for (size_t place = 0; place < labels_.size(); ++place) {
      const int32_t label = labels_[place];
      require_class(sample, label, classes);
      sum_ += predicted(answer.subspan(place * scores, scores), choice_) == label ? 1 : 0;
    }
    return;
  }
  const int32_t label = labels_[0];
  const double rank = answer.size() == 1 ? double{answer[0]} : double{answer[1]} - answer[0];
  scores_[label == 1 ? 1 : 0].push_back(rank);
}

void Scorer::require_class(int64_t sample, int32_t label, int64_t classes) const {
  require<ArgumentError>(
      label >= 0 && label < classes, "column {}: label {} of sample {} is outside 0..{}",
      printable(dataset_.columns()[choice_.column].name), label, sample, classes - 1);
}

MetricScore Scorer::score() const {
  const auto samples = static_cast<double>(std::max<int64_t>(1, samples_));
  if (choice_.kind == MetricKind::Accuracy) {
    const auto places = static_cast<double>(labels_.size());
    return {choice_.kind, 100 * sum_ / (samples * places)};
  }
  if (choice_.kind == MetricKind::AreaUnderCurve) {
    for (const std::vector<double>& each : scores_) {
      if (std::ranges::any_of(each, [](double v) { return std::isnan(v); })) {
        return {choice_.kind, std::numeric_limits<double>::quiet_NaN()};
      }
    }
    return {choice_.kind, area_under_curve(scores_[0], scores_[1])};
  }
  const auto width = static_cast<double>(std::max<size_t>(1, width_));
  return {choice_.kind, sum_ / (samples * width)};
}

}  // namespace qtape
