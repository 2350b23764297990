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

  static constexpr auto fields() {
    using R = AnswerErrorReport;
    return std::tuple{
        field("answer_error", &R::answer_error,
              "root mean squared difference from the answers without quantizers, in standard "
              "deviations, of the column where it is largest; null if none varies"),
        field("answer_error_output", &R::answer_error_output, "output with that column"),
        field("answer_error_column", &R::answer_error_column,
              "null for outputs of one or more than 64 columns")};
  }
};

/// Returns the report of the column with the largest error.
AnswerErrorReport report_of(const AnswerComparison& comparison);
/// Returns ", answers differ by 0.031 of their standard deviation"; empty if none varies.
std::string answer_error_text(const AnswerErrorReport& report);
/// Warns of an output with little in common with its values without quantizers.
void warn_of_answer_error(const AnswerErrorReport& report);

}  // namespace qtape::tool
