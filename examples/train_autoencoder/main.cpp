// train_autoencoder: detects faults of a machine by its sound with an autoencoder: in float,
// with calibrated quantizers, and trained with quantizers; the latter two also as integer
// programs.
#include <fmt/format.h>

#include "qtape/core/launcher.h"
#include "qtape/core/thread_count.h"
#include "qtape/engine/serialize.h"
#include "qtape/examples/train_autoencoder/report.h"
#include "qtape/programs/command_line.h"
#include "qtape/programs/console/program.h"
#include "qtape/programs/console/standard_output.h"
#include "qtape/programs/output_files.h"

namespace {

using namespace qtape;
using namespace qtape::examples::autoencoder;
using console::print;
using examples::OutputFiles;

// Subfolders of --report for the records of the three runs.
constexpr const char* start_record = "start";
constexpr const char* float_record = "float";
constexpr const char* quantized_record = "quantized";

struct Arguments {
  Settings settings;
  int threads = default_threads();
  std::string save;
  std::string save_float;
  std::string save_calibrated;
  std::string save_program;
  std::string json;
  std::string report;
};

void add_options(examples::CommandLine& line, Arguments& arguments) {
  line.add_settings(arguments.settings);
  line.add(examples::threads_option(arguments.threads));
  line.add({"--save", &arguments.save, "write the model trained with quantizers here"});
  line.add({"--save-float", &arguments.save_float, "write the float model here"});
  line.add(
      {"--save-calibrated", &arguments.save_calibrated, "write the calibrated model here"});
  line.add({"--save-program", &arguments.save_program,
            "write the integer program of the model trained with quantizers here"});
  line.add(examples::json_option(arguments.json));
  line.add(examples::report_option(arguments.report));
}

/// Returns the folder for a run's record; empty if no record is wanted.
std::string record_of(const Arguments& arguments, const char* name) {
  return arguments.report.empty() ? "" : arguments.report + "/" + name;
}

/// Throws IoError or ArgumentError for a path that cannot be written.
void expect_files(const Arguments& arguments, OutputFiles& files) {
  files.expect("--save", arguments.save);
  files.expect("--save-float", arguments.save_float);
  files.expect("--save-calibrated", arguments.save_calibrated);
  files.expect("--save-program", arguments.save_program);
  for (const char* name : {start_record, float_record, quantized_record}) {
    files.expect_run("--report", record_of(arguments, name));
  }
  files.expect_text("--json", arguments.json);
}

/// Calls `train` with options that draw its progress under a heading and keep a record named
/// `name` if requested. Throws Interrupted.
template <class Train>
TrainedModel with_display(const Arguments& arguments, OutputFiles& files,
                          const std::string& heading, const char* name, const Train& train) {
  print("{}\n", heading);
  try {
    TrainedModel trained = train(
        {.threads = arguments.threads, .progress = true, .report = record_of(arguments, name)});
    files.add_failure(trained.report_failure);
    return trained;
  } catch (const FitInterrupted& stopped) {
    throw console::Interrupted(stopped.signal(),
                               fmt::format("{} of this part; nothing is kept", stopped.what()));
  }
}

Results train_all(const Arguments& arguments, const data::SpectraSplit& data,
                  OutputFiles& files) {
  const Settings& s = arguments.settings;
  const auto stage = [&](const std::string& heading, const char* name, const auto& train) {
    return with_display(arguments, files, heading, name, train);
  };
  const TrainedModel start = stage("float", start_record, [&](const RunOptions& options) {
    return train_float(s, data, options);
  });
  TrainedModel trained =
      stage("continuing in float", float_record,
            [&](const RunOptions& options) { return continue_float(s, data, start, options); });
  TrainedModel calibrated = calibrate_float(s, data, trained, arguments.threads);
  print("calibrated by {}: test AUC {:.4f}\n", s.observer, calibrated.test.auc);
  const std::string heading =
      fmt::format("continuing with {} bits of weights and {} of activations", s.weight_bits,
                  s.activation_bits);
  TrainedModel quantized = stage(heading, quantized_record, [&](const RunOptions& options) {
    return train_quantized(s, data, start, options);
  });
  return {std::move(trained), std::move(calibrated), std::move(quantized), {}, {}};
}

void save_models(const Arguments& arguments, const Results& results, OutputFiles& files) {
  const auto save = [&](const std::string& path, const TrainedModel& model) {
    files.save(path, [&](const std::string& name) { model.model.save(name); });
  };
  save(arguments.save, results.quantized);
  save(arguments.save_float, results.float_model);
  save(arguments.save_calibrated, results.calibrated);
}

void deploy_all(const Arguments& arguments, const data::SpectraSplit& data, Results& results,
                OutputFiles& files) {
  const Requantization requantization = arguments.settings.requantization;
  results.calibrated_integers =
      deploy(results.calibrated, data, requantization, arguments.threads);
  results.quantized_integers =
      deploy(results.quantized, data, requantization, arguments.threads);
  files.save(arguments.save_program, [&](const std::string& name) {
    save_program(name, results.quantized_integers.program);
  });
}

/// Throws GraphError if levels of arithmetic disagree.
void require_equal(const Deployed& integers, std::string_view model) {
  if (integers.mismatches == 0) return;
  fail<GraphError>("the {} model has {} mismatches between levels of arithmetic{}", model,
                   integers.mismatches,
                   integers.first ? "; the first: " + to_string(*integers.first) : "");
}

void run(const Arguments& arguments) {
  const Settings& s = arguments.settings;
  validate(s);
  require<Error>(launched_processes().value_or(1) == 1,
                 "trains in one process, expected a start without mpirun");
  OutputFiles files;
  expect_files(arguments, files);
  const data::SpectraSplit data = load_data(s);
  print("{} training samples, {} normal and {} anomalous test samples\n", data.train.size(),
        data.normal.size(), data.anomalous.size());
  Results results = train_all(arguments, data, files);
  save_models(arguments, results, files);
  deploy_all(arguments, data, results, files);
  print("\n{}", report_table(s, results));
  const int64_t in_float = results.float_model.skipped_batches;
  const int64_t trained = results.quantized.skipped_batches;
  if (in_float + trained > 0) {
    print("batches skipped without a finite loss: float {}, trained {}\n", in_float, trained);
  }
  files.write(arguments.json, report_json(s, arguments.threads, results));
  files.require_written();
  require_equal(results.calibrated_integers, "calibrated");
  require_equal(results.quantized_integers, "trained");
}

}  // namespace

int main(int argc, char** argv) {
  return console::run_program("train_autoencoder", [&] {
    examples::CommandLine line(
        "train_autoencoder",
        "Detects faults in generated machine sound with a quantized autoencoder.");
    Arguments arguments;
    add_options(line, arguments);
    return examples::run_parsed(line.app(), argc, argv, [&] {
      run(arguments);
      return 0;
    });
  });
}
