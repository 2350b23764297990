// train_autoencoder: finds faults of a machine in its sound by an autoencoder, in float, with
// quantizers calibrated afterwards, and trained with quantizers; both also as integers.
#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "qtape/engine/serialize.h"
#include "qtape/examples/shared/command_line.h"
#include "qtape/examples/shared/interruption.h"
#include "qtape/examples/shared/output_files.h"
#include "qtape/examples/shared/progress.h"
#include "qtape/examples/shared/standard_output.h"
#include "qtape/examples/train_autoencoder/report.h"

namespace {

using namespace qtape;
using namespace qtape::examples::autoencoder;
using examples::OutputFiles;
using examples::print;

struct Arguments {
  Settings settings;
  std::string scale_mode = "LSQ";
  std::string requantization = "FloatMultiply";
  int threads = default_threads();
  std::string save;
  std::string save_float;
  std::string save_calibrated;
  std::string save_program;
  std::string report;
};

template <class T>
void add(CLI::App& app, const char* name, T& value, T low, T high, const char* text) {
  app.add_option(name, value, text)->check(examples::range(low, high))->capture_default_str();
}

void add_data(CLI::App& app, Settings& s) {
  constexpr int64_t most = 1000000;
  add<int64_t>(app, "--samples", s.samples, 1, most, "training samples to generate");
  add<int64_t>(app, "--test-samples", s.test_samples, 1, most,
               "normal test samples to generate, and as many anomalous ones");
  add<int64_t>(app, "--data-seed", s.data_seed, 0, INT64_MAX, "seed of the samples");
}

void add_quantization(CLI::App& app, Arguments& arguments) {
  Settings& s = arguments.settings;
  add<int64_t>(app, "--weight-bits", s.weight_bits, 2, 8, "bits of weights");
  add<int64_t>(app, "--activation-bits", s.activation_bits, 2, 16,
               "bits of each layer's input and of the reconstruction");
  app.add_option("--scale-mode", arguments.scale_mode, "how trained quantizers get scales")
      ->transform(examples::spelling_of<ScaleOrigin>())
      ->capture_default_str();
  app.add_option("--observer", s.observer,
                 "calibration by MinMax, MovingAverage, Histogram, Percentile, Mse, Kl, "
                 "ClipStd, Mix; search: the best for each quantizer")
      ->capture_default_str();
  add<int64_t>(app, "--calibration-samples", s.calibration_samples, 1, 1000000,
               "training samples to calibrate with, at most all");
  app.add_option("--requantization", arguments.requantization,
                 "how integer programs requantize")
      ->transform(examples::spelling_of<Requantization>())
      ->capture_default_str();
}

void add_training(CLI::App& app, Settings& s) {
  add<int64_t>(app, "--epochs", s.epochs, 1, 100000,
               "passes over the training data in float, before the models part");
  add<int64_t>(app, "--qat-epochs", s.qat_epochs, 1, 100000,
               "further passes from there, one model in float, one with quantizers");
  add<int64_t>(app, "--batch", s.batch, 1, 1000000, "samples per step");
  add(app, "--lr", s.learning_rate, 0.0, 10.0,
      "learning rate at the start; decays to 0 by cosine");
  add(app, "--qat-lr", s.qat_learning_rate, 0.0, 10.0, "the same in the further passes");
  add<int64_t>(app, "--seed", s.seed, 0, INT64_MAX, "seed of weights and order");
}

void add_files(CLI::App& app, Arguments& arguments) {
  add(app, "--threads", arguments.threads, 1, 1024,
      "threads; the result does not depend on them");
  app.add_option("--save", arguments.save, "write the model trained with quantizers here");
  app.add_option("--save-float", arguments.save_float, "write the float model here");
  app.add_option("--save-calibrated", arguments.save_calibrated,
                 "write the calibrated model here");
  app.add_option("--save-program", arguments.save_program,
                 "write the integer program of the model trained with quantizers here");
  app.add_option("--report", arguments.report,
                 "write settings and results here as JSON; - is standard output");
}

/// Throws IoError or ArgumentError for a path that cannot be written.
void expect_files(const Arguments& arguments, OutputFiles& files) {
  files.expect("--save", arguments.save);
  files.expect("--save-float", arguments.save_float);
  files.expect("--save-calibrated", arguments.save_calibrated);
  files.expect("--save-program", arguments.save_program);
  files.expect_text("--report", arguments.report);
}

/// Calls `train` with options that draw its progress under a heading. Throws Interrupted.
template <class Train>
TrainedModel with_display(const std::string& heading, int threads, const Train& train) {
  print("{}\n", heading);
  examples::ProgressDisplay display(0, 6);
  const examples::Interruption interruption;
  return train(
      {.threads = threads,
       .on_step =
           [&](const examples::Progress& each) {
             display.step(each);
             const int signal = interruption.signal();
             if (signal == 0) return;
             throw examples::Interrupted(
                 signal, fmt::format("stopped by {} after step {} of {} of this part; "
                                     "nothing is kept",
                                     examples::signal_name(signal), each.step, each.steps));
           },
       .on_epoch =
           [&](const EpochResult& each) {
             display.epoch(each.epoch, each.loss, fmt::format("test AUC {:.4f}", each.auc));
           }});
}

Results train_all(const Arguments& arguments, const data::SpectraSplit& data) {
  const Settings& s = arguments.settings;
  const auto stage = [&](const std::string& heading, const auto& train) {
    return with_display(heading, arguments.threads, train);
  };
  const TrainedModel start =
      stage("float", [&](const RunOptions& options) { return train_float(s, data, options); });
  TrainedModel trained = stage("going on in float", [&](const RunOptions& options) {
    return continue_float(s, data, start, options);
  });
  TrainedModel calibrated = calibrate_float(s, data, trained, arguments.threads);
  print("calibrated by {}: test AUC {:.4f}\n", s.observer, calibrated.test.auc);
  const std::string heading =
      fmt::format("going on with {} bits of weights and {} of activations", s.weight_bits,
                  s.activation_bits);
  TrainedModel quantized = stage(heading, [&](const RunOptions& options) {
    return train_quantized(s, data, start, options);
  });
  return {std::move(trained), std::move(calibrated), std::move(quantized), {}, {}};
}

void save_models(const Arguments& arguments, const Results& results, OutputFiles& files) {
  const auto save = [&](const std::string& path, const TrainedModel& model) {
    files.save(path, [&](const std::string& name) {
      save_model(name, model.network.graph, model.parameters);
    });
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

/// Throws GraphError where levels of arithmetic disagree.
void require_equal(const Deployed& integers, std::string_view model) {
  if (integers.mismatches == 0) return;
  fail<GraphError>("the {} model has {} mismatches between levels of arithmetic{}", model,
                   integers.mismatches,
                   integers.first ? "; the first: " + to_string(*integers.first) : "");
}

void run(Arguments& arguments) {
  Settings& s = arguments.settings;
  s.scale_mode = *from_string<ScaleOrigin>(arguments.scale_mode);
  s.requantization = *from_string<Requantization>(arguments.requantization);
  validate(s);
  OutputFiles files;
  expect_files(arguments, files);
  const data::SpectraSplit data = load_data(s);
  print("{} training samples, {} normal and {} anomalous test samples\n", data.train.size(),
        data.normal.size(), data.anomalous.size());
  Results results = train_all(arguments, data);
  save_models(arguments, results, files);
  deploy_all(arguments, data, results, files);
  print("\n{}", report_table(s, results));
  const int64_t in_float = results.float_model.skipped_batches;
  const int64_t trained = results.quantized.skipped_batches;
  if (in_float + trained > 0) {
    print("batches skipped without a finite loss: float {}, trained {}\n", in_float, trained);
  }
  files.write(arguments.report, report_json(s, arguments.threads, results));
  files.require_written();
  require_equal(results.calibrated_integers, "calibrated");
  require_equal(results.quantized_integers, "trained");
}

}  // namespace

int main(int argc, char** argv) try {
  CLI::App app("Finds faults in generated machine sound by a quantized autoencoder.",
               "train_autoencoder");
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  Arguments arguments;
  add_data(app, arguments.settings);
  add_quantization(app, arguments);
  add_training(app, arguments.settings);
  add_files(app, arguments);
  return examples::run_program(app, argc, argv, [&] {
    run(arguments);
    return 0;
  });
} catch (const std::exception& error) {
  std::fprintf(stderr, "train_autoencoder: %s\n", error.what());
  return 1;
}
