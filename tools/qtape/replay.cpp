#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "qtape/core/printable.h"
#include "qtape/engine/constants.h"
#include "qtape/engine/quantizers.h"
#include "qtape/io/arrays/arrays.h"
#include "qtape/io/files.h"
#include "qtape/model/feed.h"
#include "qtape/model/model.h"
#include "qtape/programs/output_files.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/data.h"
#include "qtape/tools/qtape/json_report.h"
#include "qtape/tools/qtape/load_file.h"
#include "qtape/tools/qtape/options.h"

namespace qtape::tool {

struct ReplayOptions {
  std::string model;  ///< or integer program
  DataOptions data;
  int threads = default_threads();
  bool in_float = false;  ///< quantizers are off; only for models
  std::string answers;    ///< file of arrays for all answers, f32; empty: none
  std::string json = {};
};

namespace {

void print(const EvaluationReport& report, const data::Dataset& data) {
  fmt::print("{}{}{}\noutputs sha256 {}\n", counted(report.samples, "sample"),
             report.score ? ", " + score_text(report) : "",
             non_finite_text(report.non_finite_answers, data), report.outputs_sha256);
  for (const OutputReport& each : report.outputs) {
    const std::string score =
        each.score ? " " + to_string(MetricScore{*each.metric, *each.score}) + "," : "";
    fmt::print("output {}{} sha256 {}\n", printable(each.label), score, each.sha256);
  }
}

/// Throws ArgumentError unless each answer has a name of its own, and for a file of one array
/// if there are several.
void require_names(const DataNeeds& needs, const std::string& path) {
  std::vector<std::string> names;
  for (const data::WantedInput& each : needs.answers) {
    const auto same = std::ranges::count(needs.answers, each.name, &data::WantedInput::name);
    require<ArgumentError>(same == 1, "--output: {} lists the answer '{}' twice", needs.file,
                           printable(each.name));
    names.push_back(printable(each.name));
  }
  require<ArgumentError>(names.size() == 1 || !path.ends_with(".npy"),
                         "--output: {} holds one array, the outputs are '{}': name a .npz or "
                         ".safetensors file",
                         path, fmt::join(names, "', '"));
}

NamedTensors answers_to(const ReplayOptions& options, AnyFile& file,
                        const data::Dataset& images) {
  return naming<GraphError>(options.model, [&] {
    const auto* program = std::get_if<IntegerProgram>(&file);
    if (program != nullptr) return predict_all(*program, images, options.threads);
    return predict_all(Model(std::get<SavedModel>(std::move(file))), images, options.threads);
  });
}

/// Warns of quantizers of activations that observed nothing and take scales from each batch, so
/// that an answer depends on the other samples of its batch.
void say_without_scales(const SavedModel& model) {
  std::vector<NodeId> found;
  const std::vector<bool> constant = constant_nodes(model.graph);
  for (const NodeId id : quantizers(model.graph)) {
    if (constant[at(model.graph[id].operands[0])]) continue;
    const auto known = qparams(model.graph, model.parameters, id);
    if (std::ranges::any_of(known, [](const auto& each) { return each.scale == 0; })) {
      found.push_back(id);
    }
  }
  if (found.empty()) return;
  fmt::print(
      "warning: {} observed no data yet, first '{}': answers depend on the other samples of a "
      "batch; calibrate or train the model\n",
      counted(std::ssize(found), "quantizer"), printable(model.graph.name(found[0])));
}

/// Writes all answers to the file of the options: a single one is named `answers`, several are
/// named like the outputs.
void save_answers(const ReplayOptions& options, NamedTensors answers,
                  programs::OutputFiles& files) {
  if (answers.size() == 1) answers[0].name = "answers";
  const std::string bytes = to_array_file(options.answers, answers);
  files.save(options.answers, [&](const std::string& path) { write_file(path, bytes); });
}

Evaluation evaluated(const ReplayOptions& options, const AnyFile& file,
                     const data::Dataset& images) {
  if (const auto* program = std::get_if<IntegerProgram>(&file)) {
    require_fit(*program, images);
    return naming<GraphError>(options.model, [&] {
      return naming_nan(images, [&] { return evaluate(*program, images, options.threads); });
    });
  }
  const auto& model = std::get<SavedModel>(file);
  require_fit(model.graph, model.graph.answers(), images);
  return naming<GraphError>(options.model, [&] {
    return Evaluator(model.graph, model.parameters, options.threads)
        .run(images, options.in_float ? mode::float_eval : mode::eval);
  });
}

}  // namespace

/// Runs a saved model or integer program on the test samples of a data set; prints the
/// score and a SHA-256 of all answers in their dtypes.
void replay(const ReplayOptions& options) {
  require<ArgumentError>(options.answers.empty() || !options.in_float,
                         "--output holds quantized answers; omit --float");
  if (!options.answers.empty()) require_array_file(options.answers);
  programs::OutputFiles files;
  files.reads({options.model});
  files.reads(options.data.paths());
  files.expect_unread("--output", options.answers);
  files.expect_text("--json", options.json);
  AnyFile file = load_file(options.model, files);
  const auto* program = std::get_if<IntegerProgram>(&file);
  require<ArgumentError>(program == nullptr || !options.in_float,
                         "--float: {} is an integer program, which has no quantizers",
                         options.model);
  const auto* model = std::get_if<SavedModel>(&file);
  const DataNeeds needs = program != nullptr ? needs_of(options.model, *program)
                                             : needs_of(options.model, model->graph);
  if (!options.answers.empty()) require_names(needs, options.answers);
  const data::Dataset images = load_data(options.data, needs).test;
  if (model != nullptr && !options.in_float) say_without_scales(*model);
  const EvaluationReport report = report_of(evaluated(options, file, images));
  print(report, images);
  if (!options.answers.empty()) {
    save_answers(options, answers_to(options, file, images), files);
  }
  write_report(files, options.json, report);
  files.require_written();
}

Command add_replay(CLI::App& app) {
  const auto o = std::make_shared<ReplayOptions>();
  CLI::App& replay =
      *app.add_subcommand("replay", "Run a model or an integer program on test samples");
  add_file(replay, o->model);
  add_data(replay, o->data, o->threads);
  add_json(replay, o->json);
  replay.add_flag("--float", o->in_float, "switch the quantizers off");
  replay.add_option("-o,--output", o->answers,
                    "write all answers here as f32: .npy, .npz or .safetensors");
  return {&replay, [o] {
            qtape::tool::replay(*o);
            return 0;
          }};
}

}  // namespace qtape::tool
