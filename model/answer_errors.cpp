#include "qtape/model/answer_errors.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "qtape/engine/labels.h"
#include "qtape/model/passes/last_softmax.h"
#include "qtape/model/targets.h"

namespace qtape {

namespace {

double deviation_of(std::span<const float> values) {
  RelativeError sums;
  for (const float each : values) sums.add(each, 0);
  return sums.deviation();
}

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

size_t AnswerErrors::column_of(size_t element) const {
  return element / static_cast<size_t>(places_.stride) % columns_.size();
}

void AnswerErrors::leave_out_far(std::span<const float> floats, int64_t sample) {
  constexpr size_t few = 200;  // one sample of these
  constexpr size_t least = 20;
  constexpr double part = 0.2;
  const size_t samples = floats.size() / static_cast<size_t>(std::max<int64_t>(1, sample));
  if (samples < least) return;
  std::vector<std::vector<float>> values(columns_.size());
  for (size_t i = 0; i < floats.size(); ++i) {
    values[column_of(i)].push_back(std::isfinite(floats[i]) ? floats[i] : 0);
  }
  for (size_t c = 0; c < columns_.size(); ++c) {
    std::vector<float> sorted = values[c];
    const auto middle = sorted.begin() + std::ssize(sorted) / 2;
    std::ranges::nth_element(sorted, middle);
    const float center = *middle;
    std::vector<float> distances(samples, 0);  // largest of each sample
    const size_t width = values[c].size() / samples;
    for (size_t i = 0; i < values[c].size(); ++i) {
      float& distance = distances[i / width];
      distance = std::max(distance, std::fabs(values[c][i] - center));
    }
    std::ranges::sort(distances);
    const float reach = distances[samples - 1 - std::max<size_t>(1, samples / few)];
    const double whole = deviation_of(values[c]);
    std::erase_if(values[c], [&](float each) { return std::fabs(each - center) > reach; });
    if (deviation_of(values[c]) >= part * whole) continue;
    columns_[c].least = center - reach;
    columns_[c].most = center + reach;
  }
}

void AnswerErrors::add(std::span<const float> floats, std::span<const float> quantized) {
  for (size_t i = 0; i < floats.size(); ++i) {
    Column& column = columns_[column_of(i)];
    const double difference = double{quantized[i]} - double{floats[i]};
    if (!std::isfinite(floats[i]) || !std::isfinite(difference)) continue;
    if (floats[i] < column.least || floats[i] > column.most) continue;
    column.sums.add(floats[i], difference);
  }
}

void AnswerErrors::clear() {
  for (Column& each : columns_) each.sums = {};
}

std::optional<AnswerError> AnswerErrors::worst() const {
  // Columns that vary less are constant but for rounding.
  constexpr double least = 1e-6;
  std::optional<AnswerError> found;
  for (size_t c = 0; c < columns_.size(); ++c) {
    const RelativeError& column = columns_[c].sums;
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
    const size_t size = std::min(answers[i].size(), each.floats.size() - each.next);
    const auto floats = std::span(each.floats).subspan(each.next, size);
    const auto quantized = answers[i].first(size);
    for (AnswerErrors& errors : each.errors) errors.add(floats, quantized);
    if (each.classes) {
      for (size_t k = 0; k < size; ++k) each.changed += floats[k] != quantized[k] ? 1 : 0;
    }
    each.next += size;
  }
}

void AnswerComparison::restart() {
  for (Each& each : answers_) {
    for (AnswerErrors& errors : each.errors) {
      if (!is_complete_) errors.leave_out_far(each.floats, each.sample);
      errors.clear();
    }
    each.next = 0;
    each.changed = 0;
  }
  is_complete_ = true;
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
    if (!each.classes || each.next == 0) continue;
    const double share = static_cast<double>(each.changed) / static_cast<double>(each.next);
    if (!found || share > found->share) found = {each.label, share};
  }
  return found;
}

}  // namespace qtape
