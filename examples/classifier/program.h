// The program around a training run: options, files, progress, interruption, report. Included
// by the .cpp file of a program only.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>

#include "qtape/core/thread_count.h"
#include "qtape/examples/classifier/report.h"
#include "qtape/examples/shared/command_line.h"
#include "qtape/examples/shared/file_lock.h"
#include "qtape/examples/shared/interruption.h"
#include "qtape/examples/shared/output_files.h"
#include "qtape/examples/shared/progress.h"
#include "qtape/examples/shared/standard_output.h"

namespace qtape::examples {

/// What a program takes beside its settings.
struct ProgramOptions {
  int threads = default_threads();
  std::string save = {};
  std::string checkpoint = {};
  int64_t checkpoint_every = 0;
  std::string resume = {};
  std::string report = {};
};

void add_options(CommandLine& line, ProgramOptions& options);

/// "weights 4 bits, activations float".
std::string describe(const Recipe& recipe);

/// Trains to the end, drawing progress. Throws Interrupted, which says what is left of the run.
RunResult train_with_progress(Training& training, const ProgramOptions& options);

/// Prints how many outputs the folded graph changes, if there is one.
void print_folding(Training& training, const data::Dataset& images, int threads);

/// Prints the result, saves the model and writes `report`.
void finish(const Training& training, const RunResult& result, const ProgramOptions& options,
            const std::string& report, OutputFiles& files);

/// Takes the checkpoint to go on from, if there is one, and its settings.
template <ClassifierSettings S>
std::optional<Model> resume(const CommandLine& line, S& settings, ProgramOptions& options) {
  if (options.resume.empty()) return std::nullopt;
  Model checkpoint = load_model(options.resume);
  const S resumed = settings_of<S>(checkpoint);
  line.require_same(settings, resumed);
  line.require_same(settings.recipe, resumed.recipe);
  settings = resumed;
  // What is read from a pipe cannot be written again.
  if (options.checkpoint.empty() && std::filesystem::is_regular_file(options.resume)) {
    options.checkpoint = options.resume;
  }
  return checkpoint;
}

template <ClassifierSettings S>
Training make_training(const S& settings, std::optional<Model> checkpoint,
                       const data::Split& data, int threads) {
  Task task = task_of(settings, data.train);
  if (checkpoint) return {std::move(task), std::move(*checkpoint), data};
  Training training(std::move(task), data);
  const std::string& from = settings.recipe.from;
  if (!from.empty()) {
    const int64_t taken = training.start_from(load_model(from), threads);
    print("{} of {} tensors from {}\n", taken, training.parameters().entries().size(), from);
  }
  return training;
}

template <ClassifierSettings S>
void run(const CommandLine& line, S& settings, ProgramOptions& options) {
  std::optional<Model> checkpoint = resume(line, settings, options);
  validate(settings);
  OutputFiles files;
  files.expect("--save", options.save);
  files.expect("--checkpoint", options.checkpoint);
  files.expect_text("--report", options.report);
  const FileLock lock(options.checkpoint);
  const data::Split data = load_data(settings);
  print("{} training and {} test samples of {}, model {}, {}\n", data.train.size(),
        data.test.size(), data_name(settings), to_string_view(settings.model),
        describe(settings.recipe));
  Training training = make_training(settings, std::move(checkpoint), data, options.threads);
  const RunResult result = train_with_progress(training, options);
  finish(training, result, options, report_json(settings, options.threads, result), files);
  print_folding(training, data.test, options.threads);
}

/// The whole program; the exit code.
template <ClassifierSettings S>
int run_classifier_program(int argc, char** argv) try {
  CommandLine line{std::string(S::program), std::string(S::about)};
  S settings;
  ProgramOptions options;
  line.add_settings(settings);
  line.add_settings(settings.recipe);
  add_options(line, options);
  return run_program(line.app(), argc, argv, [&] {
    run(line, settings, options);
    return 0;
  });
} catch (const std::exception& error) {
  fmt::print(stderr, "{}: {}\n", S::program, error.what());
  return 1;
}

}  // namespace qtape::examples
