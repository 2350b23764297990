#include "qtape/tools/qtape/verify_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "qtape/core/printable.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/tools/qtape/json_report.h"
#include "qtape/tools/qtape/levels.h"

namespace qtape::tool {
namespace {

/// Returns the levels that must agree: `L1, L2 and L3`.
std::string agreeing(const std::vector<Level>& levels) {
  std::vector<std::string_view> names;
  for (Level level : levels) {
    if (level != Level::Float) names.push_back(number_of(level));
  }
  if (names.size() == 1) return std::string(names[0]);
  return fmt::format("{} and {}", fmt::join(names.begin(), names.end() - 1, ", "),
                     names.back());
}

void print_layers(const RequantizationReport& report, const std::vector<Level>& levels) {
  std::string header = fmt::format("{:<28} {:>12}", "mismatching integers", "compared");
  for (Level level : levels) {
    if (level == Level::Reference) continue;
    header += fmt::format(" {:>12}", fmt::format("{} and {}", number_of(level),
                                                 level == Level::Float ? "L1" : "L2"));
  }
  fmt::print("{}\n", header);
  for (const LayerReport& layer : report.layers) {
    std::string line = fmt::format(
        "{:<28} {:>12}", printable(layer.label) + (layer.accumulators ? " (accumulators)" : ""),
        layer.compared);
    for (Level level : levels) {
      if (level == Level::Reference) continue;
      const auto differ = layer.at(level);
      line += fmt::format(" {:>12}", differ ? fmt::format("{}", *differ) : std::string());
    }
    fmt::print("{}\n", line);
  }
  const bool floats = std::ranges::count(levels, Level::Float) > 0;
  fmt::print(
      "outputs, f32: {} differ between {}{}\n", report.output_mismatches, agreeing(levels),
      floats ? fmt::format("; {} differ in L0, which sums floats", report.output_float_exact)
             : "");
}

}  // namespace

void add_layers(RequantizationReport& report, const Verifier& verifier) {
  for (const LayerComparison& layer : verifier.layers()) {
    LayerReport& added = report.layers.emplace_back();
    added.label = layer.label;
    added.accumulators = layer.accumulators;
    added.compared = layer.compared;
    for (const auto& [level, differ] : layer.differences) {
      added.levels.push_back({level, differ});
    }
  }
  report.output_float_exact = verifier.float_output_mismatches();
  report.output_mismatches = verifier.output_mismatches();
}

void add_certificates(RequantizationReport& report, const Verifier& verifier) {
  const IntegerProgram& program = verifier.program();
  for (const ProgramNodeId id : ids(program)) {
    if (const QuantizedWeights* weights = weights_of(program[id].op)) {
      const std::string& label = program[id].label;
      report.certificates.push_back(
          {weights->certificate, label.empty() ? program.describe(id) : label});
    }
  }
  report.backend = verifier.report();
  for (const Level& level : verifier.levels()) {
    const std::string text = verifier.report(level);
    if (level > Level::Backend && !text.empty()) report.targets.push_back({level, text});
  }
}

void add_scores(RequantizationReport& report, const LevelScores& found) {
  report.metric = found.metric;
  for (const auto& [level, score] : found.scores) {
    LevelScore& added = report.scores.emplace_back();
    added = {.level = level, .score = score};
    if (found.metric == MetricKind::Accuracy) added.accuracy = score;
  }
  const auto differs = found.seen_differently.find(Level::Float);
  if (differs != found.seen_differently.end()) report.seen_differently = differs->second;
}

void print_certificates(const RequantizationReport& report) {
  for (const LayerCertificate& each : report.certificates) {
    fmt::print("certificate of {}: {}\n", printable(each.label), to_string(each));
  }
  if (!report.backend.empty()) fmt::print("L3 runs\n{}", report.backend);
  for (const LevelReport& each : report.targets) {
    fmt::print("{} runs\n{}", number_of(each.level), each.report);
  }
}

void print_samples(const RequantizationReport& report, const std::vector<Level>& levels) {
  print_layers(report, levels);
  for (const LevelScore& each : report.scores) {
    fmt::print("{}: {}\n", to_string_view(each.level),
               to_string(MetricScore{*report.metric, each.score}));
  }
  if (report.mismatches == 0) {
    fmt::print("{} agree in every integer and every output\n", agreeing(levels));
  }
  fmt::print(
      "{}{} random inputs: {} mismatches between {}{}\n",
      report.samples ? counted(*report.samples, "sample") + " and " : "", report.random_inputs,
      report.mismatches, agreeing(levels),
      report.seen_differently
          ? fmt::format("; L0 and L1 classify {} samples differently", *report.seen_differently)
          : "");
  if (report.mismatches == 0) return;
  fmt::print(stderr, "qtape: mismatch: {}\n",
             report.first_mismatch ? to_string(*report.first_mismatch)
                                   : "outputs differ in their bits");
}

}  // namespace qtape::tool
