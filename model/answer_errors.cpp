#include "qtape/model/answer_errors.h"

#include <cmath>
#include <utility>

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

}  // namespace qtape
