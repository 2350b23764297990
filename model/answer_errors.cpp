#include "qtape/model/answer_errors.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "qtape/engine/labels.h"
#include "qtape/model/targets.h"

namespace qtape {

AnswerErrors::AnswerErrors(std::string label, int64_t columns)
    : label_(std::move(label)),
      columns_(static_cast<size_t>(columns <= max_columns ? columns : 1)) {}

void AnswerErrors::add(std::span<const float> floats, std::span<const float> quantized) {
  for (size_t i = 0; i < floats.size(); ++i) {
    const double x = double{floats[i]}, difference = double{quantized[i]} - x;
    if (!std::isfinite(x) || !std::isfinite(difference)) continue;
    Column& column = columns_[i % columns_.size()];
    ++column.count;
    const double distance = x - column.mean;
    column.mean += distance / static_cast<double>(column.count);
    column.spread += distance * (x - column.mean);
    column.squares += difference * difference;
  }
}

std::optional<AnswerError> AnswerErrors::worst() const {
  // Columns that vary less are constant but for rounding.
  constexpr double least = 1e-6;
  std::optional<AnswerError> found;
  for (size_t c = 0; c < columns_.size(); ++c) {
    const Column& column = columns_[c];
    const double deviation =
        std::sqrt(column.spread / static_cast<double>(column.count > 0 ? column.count : 1));
    if (!(deviation > least * std::fabs(column.mean))) continue;
    const double error = std::sqrt(column.squares / column.spread);
    if (found && error <= found->error) continue;
    found = {label_, columns_.size() > 1 ? static_cast<int64_t>(c) : -1, error};
  }
  return found;
}

AnswerComparison::AnswerComparison(const Graph& graph) {
  for (const NodeId id : graph.answers()) {
    const Shape& shape = graph[id].type.shape;
    const int64_t columns = shape.rank() < 2 ? 1 : shape[-1];
    std::string label = answer_name(graph, id);
    answers_.push_back({indexed_classes(graph, id) == 0, label, columns, {label, columns}});
  }
}

void AnswerComparison::keep(std::span<const std::span<const float>> answers) {
  int64_t elements = 0;
  for (const std::span<const float> each : answers) elements += std::ssize(each);
  left_ = elements <= left_ ? left_ - elements : 0;
  if (left_ == 0) return;
  for (size_t i = 0; i < answers_.size(); ++i) {
    if (!answers_[i].compared) continue;
    answers_[i].floats.insert(answers_[i].floats.end(), answers[i].begin(), answers[i].end());
  }
}

void AnswerComparison::compare(std::span<const std::span<const float>> answers) {
  for (size_t i = 0; i < answers_.size(); ++i) {
    Each& each = answers_[i];
    const size_t size = std::min(answers[i].size(), each.floats.size() - each.next);
    each.errors.add(std::span(each.floats).subspan(each.next, size), answers[i].first(size));
    each.next += size;
  }
}

void AnswerComparison::restart() {
  for (Each& each : answers_) {
    each.errors = AnswerErrors(each.label, each.columns);
    each.next = 0;
  }
}

std::optional<AnswerError> AnswerComparison::worst() const {
  std::optional<AnswerError> found;
  for (const Each& each : answers_) {
    const auto worst = each.errors.worst();
    if (worst && (!found || worst->error > found->error)) found = worst;
  }
  return found;
}

}  // namespace qtape
