#include "qtape/model/answer_errors.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "qtape/engine/labels.h"
#include "qtape/model/passes/last_softmax.h"
#include "qtape/model/targets.h"

namespace qtape {

namespace {

/// Returns the kinds of columns of an answer [batch, ...].
std::vector<AnswerColumns> columns_of(const Shape& shape) {
  if (shape.rank() < 2) return {{}};
  std::vector<AnswerColumns> kinds = {{.extent = shape[-1]}};
  // More axes are of images, whose rows at the edges hardly vary.
  if (shape.rank() == 3) {
    kinds.push_back({.extent = shape[1],
                     .stride = Shape(shape.extents().subspan(2)).elements(),
                     .axis = 1});
  }
  for (AnswerColumns& each : kinds) {
    if (each.extent < 1 || each.extent > AnswerErrors::max_columns) each = {};
  }
  return kinds;
}

}  // namespace

AnswerErrors::AnswerErrors(std::string label, const AnswerColumns& columns,
                           double least_deviation)
    : label_(std::move(label)),
      least_deviation_(least_deviation),
      places_(columns),
      columns_(static_cast<size_t>(columns.extent)) {}

void AnswerErrors::add(std::span<const float> floats, std::span<const float> quantized) {
  for (size_t i = 0; i < floats.size(); ++i) {
    const double x = double{floats[i]}, difference = double{quantized[i]} - x;
    if (!std::isfinite(x) || !std::isfinite(difference)) continue;
    columns_[i / static_cast<size_t>(places_.stride) % columns_.size()].add(x, difference);
  }
}

void AnswerErrors::clear() { columns_.assign(columns_.size(), {}); }

std::optional<AnswerError> AnswerErrors::worst() const {
  // Columns that vary less are constant but for rounding.
  constexpr double least = 1e-6;
  std::optional<AnswerError> found;
  for (size_t c = 0; c < columns_.size(); ++c) {
    const RelativeError& column = columns_[c];
    const double limit = std::max(least * std::fabs(column.mean()), least_deviation_);
    if (!(column.deviation() > limit)) continue;
    const double error = column.root_mean_square();
    if (found && error <= found->error) continue;
    found = {label_, columns_.size() > 1 ? static_cast<int64_t>(c) : -1, error, places_.axis};
  }
  return found;
}

AnswerComparison::AnswerComparison(const Graph& graph, int64_t max_elements)
    : max_elements_(max_elements) {
  for (const NodeId id : graph.answers()) {
    const Shape& shape = graph[id].type.shape;
    Each& each = answers_.emplace_back(
        Each{.label = answer_name(graph, id),
             .classes = indexed_classes(graph, id) > 0,
             .sample = shape.rank() == 0 ? 1 : shape.without_first().elements()});
    if (each.classes) continue;
    for (const AnswerColumns& columns : columns_of(shape)) {
      each.errors.emplace_back(each.label, columns, last_sigmoid(graph, id) ? 1.0 / 256 : 0);
    }
  }
}

void AnswerComparison::keep(std::span<const std::span<const float>> answers) {
  const int64_t most = max_elements_ / std::ssize(answers_);
  for (size_t i = 0; i < answers_.size(); ++i) {
    Each& each = answers_[i];
    const int64_t size = std::min(std::ssize(answers[i]), most - std::ssize(each.floats));
    const std::span<const float> samples =
        answers[i].first(static_cast<size_t>(size - size % std::max<int64_t>(1, each.sample)));
    each.floats.insert(each.floats.end(), samples.begin(), samples.end());
  }
}

void AnswerComparison::compare(std::span<const std::span<const float>> answers) {
  for (size_t i = 0; i < answers_.size(); ++i) {
    Each& each = answers_[i];
    const auto width = static_cast<size_t>(std::max<int64_t>(1, each.sample));
    const size_t size = std::min(answers[i].size(), each.floats.size() - each.next);
    for (size_t at = 0; at + width <= size; at += width, each.next += width) {
      if (std::ranges::binary_search(left_out_, static_cast<int64_t>(each.next / width))) {
        continue;
      }
      const auto floats = std::span(each.floats).subspan(each.next, width);
      const auto quantized = answers[i].subspan(at, width);
      for (AnswerErrors& errors : each.errors) errors.add(floats, quantized);
      if (!each.classes) continue;
      each.compared += width;
      for (size_t k = 0; k < width; ++k) each.changed += floats[k] != quantized[k] ? 1 : 0;
    }
  }
}

void AnswerComparison::restart() {
  for (Each& each : answers_) {
    for (AnswerErrors& errors : each.errors) errors.clear();
    each.next = each.compared = each.changed = 0;
  }
}

std::optional<AnswerError> AnswerComparison::worst() const {
  std::optional<AnswerError> found;
  for (const Each& each : answers_) {
    for (const AnswerErrors& errors : each.errors) {
      const auto worst = errors.worst();
      if (worst && (!found || worst->error > found->error)) found = worst;
    }
  }
  return found;
}

std::optional<ChangedClasses> AnswerComparison::changed() const {
  std::optional<ChangedClasses> found;
  for (const Each& each : answers_) {
    if (each.compared == 0) continue;
    const double share = static_cast<double>(each.changed) / static_cast<double>(each.compared);
    if (found && share <= found->share) continue;
    found = {each.label, share, static_cast<int64_t>(each.changed)};
  }
  return found;
}

}  // namespace qtape
