#include "qtape/model/answer_errors.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "qtape/engine/labels.h"
#include "qtape/model/passes/last_softmax.h"
#include "qtape/model/targets.h"

namespace qtape {

AnswerErrors::AnswerErrors(std::string label, int64_t columns, double least_deviation)
    : label_(std::move(label)),
      least_deviation_(least_deviation),
      columns_(static_cast<size_t>(columns <= max_columns ? columns : 1)) {}

void AnswerErrors::add(std::span<const float> floats, std::span<const float> quantized) {
  for (size_t i = 0; i < floats.size(); ++i) {
    const double x = double{floats[i]}, difference = double{quantized[i]} - x;
    if (!std::isfinite(x) || !std::isfinite(difference)) continue;
    columns_[i % columns_.size()].add(x, difference);
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
    found = {label_, columns_.size() > 1 ? static_cast<int64_t>(c) : -1, error};
  }
  return found;
}

AnswerComparison::AnswerComparison(const Graph& graph, int64_t max_elements)
    : max_elements_(max_elements) {
  for (const NodeId id : graph.answers()) {
    const Shape& shape = graph[id].type.shape;
    const int64_t columns = shape.rank() < 2 ? 1 : shape[-1];
    AnswerErrors errors(answer_name(graph, id), columns,
                        last_sigmoid(graph, id) ? 1.0 / 256 : 0);
    answers_.push_back({indexed_classes(graph, id) == 0, columns, std::move(errors)});
  }
}

void AnswerComparison::keep(std::span<const std::span<const float>> answers) {
  const int64_t most = max_elements_ / std::ssize(answers_);
  for (size_t i = 0; i < answers_.size(); ++i) {
    Each& each = answers_[i];
    if (!each.compared) continue;
    const int64_t size = std::min(std::ssize(answers[i]), most - std::ssize(each.floats));
    const std::span<const float> rows =
        answers[i].first(static_cast<size_t>(size - size % each.columns));
    each.floats.insert(each.floats.end(), rows.begin(), rows.end());
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
    each.errors.clear();
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
