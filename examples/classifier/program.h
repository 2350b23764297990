// Common part of training programs: options, files, progress, interruption, JSON. Included only
// by the .cpp file of a program.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <optional>

#include "qtape/core/thread_count.h"
#include "qtape/data/generated/idx_files.h"
#include "qtape/examples/classifier/report.h"
#include "qtape/examples/classifier/task.h"
#include "qtape/model/quantization.h"
#include "qtape/programs/command_line.h"
#include "qtape/programs/console/interruption.h"
#include "qtape/programs/console/program.h"
#include "qtape/programs/console/standard_output.h"
#include "qtape/programs/launch.h"
#include "qtape/programs/output_files.h"

namespace qtape::examples {

using namespace programs;

/// Number of training batches on which fine-tuning calibrates.
inline constexpr int64_t calibration_batches = 32;

/// Options of a program in addition to its settings.
struct ProgramOptions {
  int threads = default_threads();
  std::string save = {};
  std::string checkpoint = {};
  int64_t checkpoint_every = 0;
  std::string resume = {};
  std::string json = {};
  std::string report = {};       ///< folder for the run's record
  std::string save_data = {};    ///< folder for the data, as MNIST-format files
  Exchange* exchange = nullptr;  ///< to the other processes of the run, if there are any

  /// Removes all files that only one process of a run writes. Checkpoints remain: all read
  /// them.
  void follow() { save = json = report = save_data = {}; }
};

void add_options(CommandLine& line, ProgramOptions& options);

/// Returns "weights 4 bits, activations float".
std::string describe(const TrainingSettings& recipe);

/// Prints the default bits of the first and the last layer if they were not given.
void print_ends(const Graph& graph, const TrainingSettings& recipe);

/// Returns the recipe's options for fit, with those of the program added.
FitOptions fit_options(const TrainingSettings& recipe, const ProgramOptions& options,
                       int64_t samples);

/// Trains to the end, drawing progress. Throws Interrupted, which states what remains of the
/// run.
RunResult train(Model& model, const TrainingSettings& recipe, const data::Split& data,
                const ProgramOptions& options, Section settings);

/// Prints how many outputs the folded graph changes, if there is one.
void print_folding(Model& model, const data::Dataset& images, int threads);

/// Prints the result, saves the model and writes `json`.
void finish(const Model& model, const TrainingSettings& recipe, const RunResult& result,
            const ProgramOptions& options, const std::string& json, OutputFiles& files);

/// Throws ArgumentError for given options that have no effect.
void refuse_useless_options(const CommandLine& line, const TrainingSettings& recipe,
                            const ProgramOptions& options);

/// Loads the checkpoint from which to continue, if there is one, and its settings.
template <ClassifierSettings S>
std::optional<Model> resume(CommandLine& line, S& settings, ProgramOptions& options) {
  if (options.resume.empty()) return std::nullopt;
  Model checkpoint = Model::load(options.resume);
  const S resumed = naming<FormatError>(options.resume,
                                        [&] { return settings_of<S>(checkpoint.sections()); });
  require_same(line.app(), settings, resumed);
  require_same(line.app(), settings.recipe, resumed.recipe);
  settings = resumed;
  // A pipe that was read from cannot be written.
  std::error_code none;
  if (options.checkpoint.empty() && std::filesystem::is_regular_file(options.resume, none)) {
    options.checkpoint = options.resume;
  }
  return checkpoint;
}

template <ClassifierSettings S>
Model make_model(const S& settings, std::optional<Model> checkpoint, const data::Split& data,
                 int threads) {
  Graph graph = make_network(settings, data.train);
  if (checkpoint) {
    require<FormatError>(graph == checkpoint->graph(),
                         "/nodes: the graph is not the one that the settings describe");
    return std::move(*checkpoint);
  }
  Model model(std::move(graph), static_cast<uint64_t>(settings.recipe.seed));
  const std::string& from = settings.recipe.from;
  if (!from.empty()) {
    const SavedModel saved = load_model(from);
    const int64_t taken = start_from(model, saved.parameters, data.train,
                                     calibration_batches * settings.recipe.batch, threads);
    console::print("{} of {} tensors from {}\n", taken, model.parameters().entries().size(),
                   from);
  }
  return model;
}

template <ClassifierSettings S>
void run(CommandLine& line, S& settings, ProgramOptions& options) {
  std::optional<Model> checkpoint = resume(line, settings, options);
  validate(settings);
  refuse_useless_options(line, settings.recipe, options);
  // Reports and checkpoints state the rate, as a later default may differ.
  settings.recipe.learning_rate = learning_rate_of(settings.recipe);
  OutputFiles files;
  const std::string& folder = settings.recipe.data;
  if (!folder.empty()) files.reads(data::mnist_files(folder));
  if (options.resume.empty()) files.reads({settings.recipe.from});
  files.expect_unread("--save", options.save);
  if (leads(options.exchange)) files.expect_unread("--checkpoint", options.checkpoint);
  files.expect_run("--report", options.report);
  require<ArgumentError>(
      options.save_data.empty() || settings.recipe.data.empty(),
      "--save-data writes generated data and cannot be combined with --data");
  files.expect_folder("--save-data", options.save_data,
                      data::mnist_files_in(options.save_data));
  files.reads({options.resume});
  files.expect_text("--json", options.json);
  const data::Split data = load_data(settings);
  if (!options.save_data.empty()) data::write_mnist(options.save_data, settings.generate());
  console::print("{} training and {} {} samples of {}, model {}, {}\n", data.train.size(),
                 data.test.size(), scored_data(settings.recipe), data_name(settings),
                 to_string_view(settings.model), describe(settings.recipe));
  Model model = make_model(settings, std::move(checkpoint), data, options.threads);
  print_ends(model.graph(), settings.recipe);
  const RunResult result =
      train(model, settings.recipe, data, options, settings_section(settings));
  finish(model, settings.recipe, result, options,
         report_json(settings, options.threads, result), files);
  print_folding(model, data.test, options.threads);
}

/// Runs the whole program; returns the exit code.
template <ClassifierSettings S>
int run_classifier_program(int argc, char** argv) {
  return console::run_program(S::program.data(), [&] {
    CommandLine line{std::string(S::program), std::string(S::about)};
    S settings;
    ProgramOptions options;
    line.add_settings(settings);
    line.add_settings(settings.recipe);
    add_options(line, options);
    return run_parsed(line.app(), argc, argv, [&] {
      Launch launch{std::string(S::program)};
      options.exchange = launch.exchange();
      if (!leads(options.exchange)) options.follow();
      launch.run([&] { run(line, settings, options); });
      return 0;
    });
  });
}

}  // namespace qtape::examples
