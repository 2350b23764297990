#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "qtape/core/printable.h"
#include "qtape/engine/serialize.h"
#include "qtape/model/passes/fold_batch_norm.h"
#include "qtape/model/passes/norm_folds.h"
#include "qtape/programs/output_files.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/json_report.h"
#include "qtape/tools/qtape/load_file.h"
#include "qtape/tools/qtape/options.h"

namespace qtape::tool {

namespace {

/// A batch norm that is not folded.
struct KeptNorm {
  std::string label;
  std::string reason;
  std::string remedy;

  static constexpr auto fields() {
    using K = KeptNorm;
    return std::tuple{field("label", &K::label, "of the norm"),
                      field("reason", &K::reason, "why it cannot be folded"),
                      field("remedy", &K::remedy, "how to solve it")};
  }
};

struct FoldReport {
  std::vector<std::string> folded;
  std::vector<KeptNorm> kept;
  int64_t parameters_before = 0;
  int64_t parameters = 0;

  static constexpr auto fields() {
    using R = FoldReport;
    return std::tuple{
        field("folded_norms", &R::folded, "labels of the norms folded into preceding layers"),
        field("kept_norms", &R::kept, "norms that are kept"),
        field("parameters_before", &R::parameters_before, "trainable elements of the model"),
        field("parameters", &R::parameters, "trainable elements of the written model")};
  }
};

FoldReport fold_report_of(const SavedModel& model) {
  FoldReport report{.parameters_before = model.parameters.trainable_elements()};
  for (const NormFold& each : norm_folds(model.graph)) {
    const std::string name = model.graph.name(each.norm);
    if (each.has_product()) {
      report.folded.push_back(name);
    } else {
      report.kept.push_back({name, each.reason, each.remedy});
    }
  }
  for (const NodeId id : ids(model.graph)) {
    const bool trained = std::holds_alternative<BatchNormCorrection>(model.graph[id].op);
    if (trained) report.folded.push_back(model.graph.name(id));
  }
  return report;
}

/// Throws GraphError if there is nothing to fold.
void require_norms(const FoldReport& report) {
  if (!report.folded.empty()) return;
  check(!report.kept.empty(), "the model has no batch norms");
  std::string text;
  for (const KeptNorm& each : report.kept) {
    text += fmt::format("{}{}: {}: {}", text.empty() ? "" : "; ", printable(each.label),
                        each.reason, each.remedy);
  }
  fail<GraphError>("no batch norm can be folded: {}", text);
}

void print(const FoldReport& report) {
  for (const std::string& each : report.folded) fmt::print("folded {}\n", printable(each));
  for (const KeptNorm& each : report.kept) {
    fmt::print("kept {}: {}; {}\n", printable(each.label), each.reason, each.remedy);
  }
  fmt::print("{} parameters, {} before\n", report.parameters, report.parameters_before);
}

}  // namespace

/// Writes a model with its batch norms folded into the preceding layers, quantized or not;
/// prints which norms are folded and which are not.
void fold(const std::string& path, const std::string& output, const std::string& json) {
  programs::OutputFiles files;
  files.expect("--output", output);
  files.reads({path});
  files.expect_text("--json", json);
  SavedModel model = read_model(path, files);
  FoldReport report = fold_report_of(model);
  const SavedModel folded = naming<GraphError>(path, [&] {
    require_norms(report);
    return fold_batch_norm(model.graph, model.parameters);
  });
  report.parameters = folded.parameters.trainable_elements();
  print(report);
  files.save(output, [&](const std::string& name) {
    save_model(name, folded.graph, folded.parameters);
  });
  write_report(files, json, report);
  files.require_written();
}

Command add_fold(CLI::App& app) {
  struct Options {
    std::string model;
    std::string output;
    std::string json;
  };
  const auto o = std::make_shared<Options>();
  CLI::App& fold = *app.add_subcommand(
      "fold", "Write a model with batch norms folded into the preceding layers");
  add_model(fold, o->model);
  add_output(fold, o->output, "file to write");
  add_json(fold, o->json);
  return {&fold, [o] {
            qtape::tool::fold(o->model, o->output, o->json);
            return 0;
          }};
}

}  // namespace qtape::tool
