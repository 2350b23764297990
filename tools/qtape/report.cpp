#include "qtape/tools/qtape/report.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>

#include "qtape/core/printable.h"
#include "qtape/programs/report/page.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/json_report.h"
#include "qtape/tools/qtape/options.h"

namespace qtape::tool {

namespace {

/// Summary of a run in one line.
struct RunLine {
  std::string name;
  std::string state;
  int64_t step = 0;
  int64_t steps = 0;
  int64_t epochs = 0;
  std::optional<double> loss = {};
  std::optional<double> score = {};

  static constexpr auto fields() {
    using L = RunLine;
    return std::tuple{field("name", &L::name, "of its folder"),
                      field("state", &L::state, "state of the run"),
                      field("step", &L::step, "finished steps"),
                      field("steps", &L::steps, "of the whole run"),
                      field("epochs", &L::epochs, "number of finished epochs"),
                      field("loss", &L::loss, "of the last epoch"),
                      field("score", &L::score, "of the last epoch")};
  }
};

struct RunsReport {
  std::vector<RunLine> runs;

  static constexpr auto fields() {
    return std::tuple{field("runs", &RunsReport::runs, "in the order given")};
  }
};

/// Names runs by their paths if several have the same name.
void tell_apart(std::vector<report::RunRecord>& records,
                const std::vector<std::string>& paths) {
  std::map<std::string, int64_t> counts;
  for (const report::RunRecord& each : records) ++counts[each.name];
  for (size_t i = 0; i < records.size(); ++i) {
    if (counts[records[i].name] > 1) records[i].name = paths[i];
  }
}

RunsReport report_of(const std::vector<report::RunRecord>& records) {
  RunsReport result;
  for (const report::RunRecord& each : records) {
    const report::RunEpoch last = each.epochs.empty() ? report::RunEpoch{} : each.epochs.back();
    result.runs.push_back({.name = each.name,
                           .state = std::string(to_string_view(each.state)),
                           .step = each.step,
                           .steps = each.steps,
                           .epochs = static_cast<int64_t>(each.epochs.size()),
                           .loss = last.loss,
                           .score = last.score});
  }
  return result;
}

void print(const RunsReport& report) {
  for (const RunLine& each : report.runs) {
    fmt::print("{}: {} at step {} of {}, {} epochs\n", printable(each.name), each.state,
               each.step, each.steps, each.epochs);
  }
}

std::vector<report::RunRecord> records_of(const std::vector<std::string>& runs) {
  std::vector<report::RunRecord> records;
  for (const std::string& each : runs) records.push_back(report::read_run(each));
  tell_apart(records, runs);
  return records;
}

}  // namespace

std::string page_of_runs(const std::vector<std::string>& runs) {
  return report::run_page(records_of(runs));
}

/// Writes a page that shows the runs with records in the folders `runs`.
void draw_runs(const std::vector<std::string>& runs, const std::string& output,
               const std::string& json) {
  programs::OutputFiles files;
  files.reads(runs);
  files.expect_text("--output", output);
  files.expect_text("--json", json);
  const std::vector<report::RunRecord> records = records_of(runs);
  const RunsReport report = report_of(records);
  print(report);
  files.write(output, report::run_page(records));
  write_report(files, json, report);
  files.require_written();
}

Command add_report(CLI::App& app) {
  struct Options {
    std::vector<std::string> runs;
    std::string output;
    std::string json;
  };
  const auto o = std::make_shared<Options>();
  CLI::App& report = *app.add_subcommand("report", "Write a page that shows training runs");
  report.add_option("runs", o->runs, "folders written by --report of training")->required();
  add_output(report, o->output, "HTML file to write; - is standard output");
  add_json(report, o->json);
  return {&report, [o] {
            draw_runs(o->runs, o->output, o->json);
            return 0;
          }};
}

}  // namespace qtape::tool
