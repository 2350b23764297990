#include "qtape/tools/qtape/answer_error.h"

#include <fmt/format.h>

#include "qtape/core/printable.h"
#include "qtape/model/passes/cell_states.h"

namespace qtape::tool {

namespace {

// Fewer samples or classes may differ by chance.
constexpr double least_changed = 3;

std::string remedies(const Graph& graph) {
  return fmt::format(
      "compare --observer all, give activations more bits{}, or train",
      has_cell_states(graph) ? " (cell states of LSTM layers: --cell-bits)" : "");
}

}  // namespace

AnswerErrorReport report_of(const AnswerComparison& comparison) {
  AnswerErrorReport report;
  if (const std::optional<AnswerError> worst = comparison.worst()) {
    report.answer_error = worst->error;
    report.answer_error_output = worst->label;
    if (worst->column >= 0) {
      report.answer_error_column = worst->column;
      report.answer_error_axis = worst->axis;
    }
  }
  if (const auto changed = comparison.changed()) {
    report.changed_classes = changed->share;
    report.changed = changed->number;
  }
  return report;
}

std::string answer_error_text(const AnswerErrorReport& report) {
  std::string text;
  if (report.answer_error) {
    text = fmt::format(", answers differ by {:.3f} of their standard deviation",
                       *report.answer_error);
  }
  if (report.changed_classes) {
    text += fmt::format(", {:.1f} % of classes differ", 100 * *report.changed_classes);
  }
  return text;
}

void warn_of_answer_error(const AnswerErrorReport& report, const Graph& graph) {
  // Trained networks that keep their accuracy have up to 0.24.
  constexpr double max_error = 0.25;
  constexpr double max_changed = 0.05;
  if (report.answer_error && *report.answer_error > max_error) {
    const std::string axis = report.answer_error_axis == 1 ? " along axis 1" : std::string();
    const std::string column =
        report.answer_error_column
            ? fmt::format("column {}{} of ", *report.answer_error_column, axis)
            : std::string();
    fmt::print(
        "warning: {}'{}' differs from its values without quantizers by {:.3f} of their "
        "standard deviation (root mean square): {}\n",
        column, printable(report.answer_error_output), *report.answer_error, remedies(graph));
  }
  if (report.changed_classes && *report.changed_classes > max_changed &&
      static_cast<double>(report.changed) >= least_changed) {
    fmt::print("warning: {:.1f} % of classes differ from those without quantizers: {}\n",
               100 * *report.changed_classes, remedies(graph));
  }
}

void warn_of_score(const EvaluationReport& in_float, const EvaluationReport& quantized,
                   const Graph& graph) {
  if (!in_float.score || !quantized.score || in_float.metric != quantized.metric) return;
  // Networks that quantization suits lose up to 1.5 points of accuracy.
  constexpr double max_points = 3;
  constexpr double max_area = 0.03;
  const double lost = *in_float.score - *quantized.score;
  const double samples = lost / 100 * static_cast<double>(quantized.samples);
  const bool accuracy = in_float.metric == MetricKind::Accuracy && lost > max_points &&
                        samples > least_changed - 0.5;
  const bool area = in_float.metric == MetricKind::AreaUnderCurve && lost > max_area;
  if (!accuracy && !area) return;
  const Metric metric = metric_of(*in_float.metric);
  fmt::print("warning: {} falls from {} to {}: {}\n", metric.name, metric.text(*in_float.score),
             metric.text(*quantized.score), remedies(graph));
}

}  // namespace qtape::tool
