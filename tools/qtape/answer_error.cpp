#include "qtape/tools/qtape/answer_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "qtape/core/printable.h"

namespace qtape::tool {

AnswerErrorReport answer_error_report(Evaluator& evaluator, const data::Dataset& set) {
  constexpr int64_t max_samples = 1000;
  const std::vector<AnswerError> errors = evaluator.answer_errors(set, max_samples);
  const auto worst = std::ranges::max_element(errors, {}, &AnswerError::error);
  if (worst == errors.end()) return {};
  AnswerErrorReport report{worst->error, worst->label};
  if (worst->column >= 0) report.answer_error_column = worst->column;
  return report;
}

std::string answer_error_text(const AnswerErrorReport& report) {
  if (!report.answer_error) return {};
  return fmt::format(", answers differ by {:.3f} of their standard deviation",
                     *report.answer_error);
}

void warn_of_answer_error(const AnswerErrorReport& report) {
  // Trained networks that keep their accuracy have up to 0.24.
  constexpr double max_error = 0.25;
  if (!report.answer_error || *report.answer_error <= max_error) return;
  const std::string column = report.answer_error_column
                                 ? fmt::format("column {} of ", *report.answer_error_column)
                                 : std::string();
  fmt::print(
      "warning: {}'{}' differs from its values without quantizers by {:.3f} of their standard "
      "deviation (root mean square): compare --observer all, give activations more bits, or "
      "train\n",
      column, printable(report.answer_error_output), *report.answer_error);
}

}  // namespace qtape::tool
