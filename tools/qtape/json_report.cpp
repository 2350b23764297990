#include "qtape/tools/qtape/json_report.h"

#include <algorithm>

#include "qtape/data/non_finite.h"
#include "qtape/integer/program/integer_node.h"

namespace qtape::tool {
namespace {

template <class Id>
void fill(NodeReport& report, std::string_view op, const std::string& label,
          const TensorType& type, const std::vector<Id>& operands) {
  report.label = label;
  report.op = op;
  report.dtype = type.dtype;
  report.shape = type.shape;
  for (const Id id : operands) report.operands.push_back(id.index);
}

}  // namespace

void write_json_text(programs::OutputFiles& files, const std::string& path,
                     const Json& report) {
  files.write(path, report.dump(1, JsonTexts::Replace) + "\n");
}

EvaluationReport report_of(const Evaluation& evaluation) {
  EvaluationReport report{.samples = evaluation.samples,
                          .accuracy = evaluation.accuracy,
                          .outputs_sha256 = evaluation.outputs_sha256,
                          .non_finite_answers = evaluation.non_finite};
  if (evaluation.score) {
    report.metric = evaluation.score->metric;
    report.score = evaluation.score->value;
  }
  for (const AnswerHash& each : evaluation.outputs) {
    OutputReport& output = report.outputs.emplace_back();
    output.label = each.label;
    output.sha256 = each.sha256;
    if (!each.score) continue;
    output.metric = each.score->metric;
    output.score = each.score->value;
  }
  return report;
}

std::string counted(int64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

std::string non_finite_text(int64_t samples, const data::Dataset& data) {
  if (samples == 0) return {};
  return fmt::format(", {} with NaN or infinite answers{}", counted(samples, "sample"),
                     data::first_non_finite(data));
}

std::string score_text(const EvaluationReport& report) {
  return report.score ? to_string(MetricScore{*report.metric, *report.score}) : std::string();
}

std::vector<NodeReport> nodes_of(const Graph& graph) {
  std::vector<NodeReport> nodes;
  for (const Node& node : graph.nodes()) {
    fill(nodes.emplace_back(), name_of(node.op), node.label, node.type, node.operands);
  }
  return nodes;
}

std::vector<ProgramNodeReport> nodes_of(const IntegerProgram& program) {
  std::vector<ProgramNodeReport> nodes;
  for (const IntegerNode& node : program.nodes()) {
    ProgramNodeReport& report = nodes.emplace_back();
    fill(report, name_of(node.op), node.label, node.value.type, node.operands);
    if (const QuantizedWeights* weights = weights_of(node.op)) {
      report.certificate = weights->certificate;
    }
    if (node.value.scales.empty()) continue;
    const auto [low, high] = std::ranges::minmax(node.value.scales);
    report.smallest_scale = low;
    report.largest_scale = high;
    report.zero_point = node.value.zero_point;
    report.low = node.value.low;
    report.high = node.value.high;
  }
  return nodes;
}

}  // namespace qtape::tool
