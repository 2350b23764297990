#include "qtape/tools/qtape/answer_error.h"

#include <fmt/format.h>

#include "qtape/core/printable.h"

namespace qtape::tool {

AnswerErrorReport report_of(const AnswerComparison& comparison) {
  const std::optional<AnswerError> worst = comparison.worst();
  if (!worst) return {};
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
