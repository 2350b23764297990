// Difference of the answers from those without quantizers, as commands report it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

#include "qtape/model/answer_errors.h"
#include "qtape/tools/qtape/json_report.h"

namespace qtape::tool {

/// The column of the outputs that differs most from its values without quantizers.
struct AnswerErrorReport {
  std::optional<double> answer_error = {};
  std::string answer_error_output = {};
  std::optional<int64_t> answer_error_column = {};
  std::optional<int> answer_error_axis = {};
  std::optional<double> changed_classes = {};
  int64_t changed = 0;  ///< number of these classes

  static constexpr auto fields() {
    using R = AnswerErrorReport;
    return std::tuple{
        field("answer_error", &R::answer_error,
              "root mean squared difference from the answers without quantizers, in standard "
              "deviations, of the column where it is largest; null if none varies"),
        field("answer_error_output", &R::answer_error_output, "output with that column"),
        field("answer_error_column", &R::answer_error_column,
              "null for outputs of one or more than 128 columns"),
        field("answer_error_axis", &R::answer_error_axis,
              "axis of the column: -1, the last one, or 1; null like the column"),
        field(
            "changed_classes", &R::changed_classes,
            "share of classes of an ArgMax that differ from those without quantizers, 0 to 1; "
            "null without ArgMax")};
  }
};

/// Returns the report of the column with the largest error.
AnswerErrorReport report_of(const AnswerComparison& comparison);
/// Returns ", answers differ by 0.031 of their standard deviation" or ", 2.1 % of classes
/// differ"; empty if there is nothing to compare.
std::string answer_error_text(const AnswerErrorReport& report);
/// Warns of an output with little in common with its values without quantizers. `graph` has
/// these quantizers.
void warn_of_answer_error(const AnswerErrorReport& report, const Graph& graph);
/// Warns of an accuracy or an AUC that is much lower than without quantizers.
void warn_of_score(const EvaluationReport& in_float, const EvaluationReport& quantized,
                   const Graph& graph);

}  // namespace qtape::tool
