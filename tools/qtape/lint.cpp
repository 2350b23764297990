#include "qtape/deploy/lint.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>

#include "qtape/engine/quantizers.h"
#include "qtape/model/passes/values_without_codes.h"
#include "qtape/programs/output_files.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/json_report.h"
#include "qtape/tools/qtape/load_file.h"
#include "qtape/tools/qtape/options.h"
#include "qtape/tools/qtape/preparation.h"

namespace qtape::tool {

namespace {

struct LintReport {
  int64_t errors = 0;
  int64_t warnings = 0;
  int64_t notes = 0;
  std::vector<Finding> findings;

  static constexpr auto fields() {
    using R = LintReport;
    return std::tuple{
        field("errors", &R::errors, "findings that prevent conversion"),
        field("warnings", &R::warnings, "findings that probably indicate a mistake"),
        field("notes", &R::notes, "other findings, unless --no-notes omits them"),
        field("findings", &R::findings, "all findings")};
  }
};

/// Loads with NaN values, because lint reports them.
std::vector<Finding> findings_of(const std::string& path, programs::OutputFiles& files) {
  AnyFile file = load_file(path, files, NanValues::Keep);
  return naming<GraphError>(path, [&] {
    if (const auto* program = std::get_if<IntegerProgram>(&file)) return qtape::lint(*program);
    SavedModel& model = std::get<SavedModel>(file);
    if (!quantizers(model.graph).empty()) {
      model = before_softmax(std::move(model));
      std::vector<Finding> findings = qtape::lint(model.graph, model.parameters);
      std::ranges::move(values_without_codes(model.graph, model.parameters),
                        std::back_inserter(findings));
      return findings;
    }
    std::vector<Finding> findings = qtape::lint(model.graph, model.parameters);
    // Nodes that lack an integer form even with quantizers, which other layers get.
    const RewrittenLayers later = rewrite_layers(model.graph, model.parameters);
    std::ranges::move(float_parts_later(model.graph, later), std::back_inserter(findings));
    return findings;
  });
}

LintReport report_of(std::vector<Finding> findings, bool notes) {
  if (!notes) {
    std::erase_if(findings, [](const Finding& f) { return f.severity == Severity::Note; });
  }
  LintReport report{.findings = std::move(findings)};
  for (const Finding& finding : report.findings) {
    switch (finding.severity) {
      case Severity::Error:
        ++report.errors;
        break;
      case Severity::Warning:
        ++report.warnings;
        break;
      case Severity::Note:
        ++report.notes;
        break;
    }
  }
  return report;
}

void print(const LintReport& report) {
  for (const Finding& finding : report.findings) fmt::print("{}\n", to_string(finding));
  if (report.findings.empty()) fmt::print("ok\n");
}

}  // namespace

/// Prints possible problems of a model or an integer program, one finding with its remedy per
/// line, or `ok`. Returns the number of errors and warnings; notes are printed if `notes`, but
/// not counted.
int64_t lint(const std::string& path, bool notes, const std::string& json) {
  programs::OutputFiles files;
  files.reads({path});
  files.expect_text("--json", json);
  const LintReport report = report_of(findings_of(path, files), notes);
  print(report);
  write_report(files, json, report);
  files.require_written();
  return report.errors + report.warnings;
}

Command add_lint(CLI::App& app) {
  struct Options {
    std::string file;
    std::string json;
    bool no_notes = false;
  };
  const auto o = std::make_shared<Options>();
  CLI::App& lint = *app.add_subcommand("lint", "Find problems in the integer form");
  add_file(lint, o->file);
  add_json(lint, o->json);
  lint.add_flag("--no-notes", o->no_notes, "print errors and warnings only");
  return {&lint,
          [o] { return qtape::tool::lint(o->file, !o->no_notes, o->json) == 0 ? 0 : 1; }};
}

}  // namespace qtape::tool
