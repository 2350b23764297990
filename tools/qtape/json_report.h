// Reports of commands: structs that are printed and written as JSON with --json. Included only
// by .cpp files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "qtape/integer/core/certificate.h"
#include "qtape/integer/program/integer_program.h"
#include "qtape/io/json_fields.h"
#include "qtape/model/evaluate.h"
#include "qtape/programs/output_files.h"

namespace qtape::tool {

/// Writes a report if `path` is not empty; `-` is standard output. Non-finite numbers become
/// null, and bytes that are not UTF-8 the replacement character.
void write_json_text(programs::OutputFiles& files, const std::string& path, const Json& report);

template <Described Report>
void write_report(programs::OutputFiles& files, const std::string& path, const Report& report) {
  if (!path.empty()) write_json_text(files, path, write_json(report));
}

/// One of several outputs.
struct OutputReport {
  std::string label;
  std::string sha256;
  std::optional<MetricKind> metric = {};
  std::optional<double> score = {};

  static constexpr auto fields() {
    using R = OutputReport;
    return std::tuple{
        field("label", &R::label, "of the output"),
        field("sha256", &R::sha256, "of all answers in their dtype"),
        field("metric", &R::metric, "of this output; null without labels or targets for it"),
        field("score", &R::score, "by the metric")};
  }
};

/// Result of a model or a program on data.
struct EvaluationReport {
  int64_t samples = 0;
  std::optional<MetricKind> metric = {};
  std::optional<double> score = {};
  std::optional<double> accuracy = {};
  std::string outputs_sha256 = {};
  std::vector<OutputReport> outputs = {};
  int64_t non_finite_answers = 0;

  static constexpr auto fields() {
    using R = EvaluationReport;
    return std::tuple{
        field("samples", &R::samples, "samples of the data"),
        field("metric", &R::metric, "of the first output; null without labels or targets"),
        field("score", &R::score, "by the metric"),
        field("accuracy", &R::accuracy, "percent; null for other metrics"),
        field("outputs_sha256", &R::outputs_sha256, "of all answers in their dtype"),
        field("outputs", &R::outputs, "each of several outputs; empty for a single one"),
        field("non_finite_answers", &R::non_finite_answers,
              "samples with a NaN or infinite answer")};
  }
};
EvaluationReport report_of(const Evaluation& evaluation);
/// Returns "1 sample", "2 samples".
std::string counted(int64_t number, std::string_view noun);
/// Returns ", 2 samples with NaN or infinite answers" and the first element of `data` that is
/// NaN or infinite, if any; empty if `samples` is 0.
std::string non_finite_text(int64_t samples, const data::Dataset& data);
/// Returns "accuracy 97.10 %"; empty without a metric.
std::string score_text(const EvaluationReport& report);

/// A node of a model.
struct NodeReport {
  std::string label;
  std::string op;
  DType dtype = DType::F32;
  Shape shape;
  std::vector<int64_t> operands;

  static constexpr auto fields() {
    using R = NodeReport;
    return std::tuple{field("label", &R::label, "empty if it has none"),
                      field("op", &R::op, "name of the op"),
                      field("dtype", &R::dtype, "of the value"),
                      field("shape", &R::shape, "of the value"),
                      field("operands", &R::operands, "indices of nodes in this list, from 0")};
  }
};
std::vector<NodeReport> nodes_of(const Graph& graph);

/// A node of an integer program.
struct ProgramNodeReport : NodeReport {
  std::optional<double> smallest_scale = {};
  std::optional<double> largest_scale = {};
  std::optional<int64_t> zero_point = {};
  std::optional<int64_t> low = {};
  std::optional<int64_t> high = {};
  std::optional<Certificate> certificate = {};

  static constexpr auto fields() {
    using R = ProgramNodeReport;
    return std::tuple_cat(
        NodeReport::fields(),
        std::tuple{
            field("smallest_scale", &R::smallest_scale,
                  "of codes and accumulators; null for f32, as are the following"),
            field("largest_scale", &R::largest_scale, "largest of several scales"),
            field("zero_point", &R::zero_point, "code of the value 0"),
            field("low", &R::low, "smallest code or accumulator"),
            field("high", &R::high, "largest one"),
            field("certificate", &R::certificate, "of products with weights, otherwise null")});
  }
};
std::vector<ProgramNodeReport> nodes_of(const IntegerProgram& program);

}  // namespace qtape::tool
