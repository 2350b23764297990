// train_mlp: trains a quantization-aware network on digits, saves it, reports what it reached.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <filesystem>

#include "qtape/core/thread_count.h"
#include "qtape/examples/shared/command_line.h"
#include "qtape/examples/shared/file_lock.h"
#include "qtape/examples/shared/interruption.h"
#include "qtape/examples/shared/output_files.h"
#include "qtape/examples/shared/progress.h"
#include "qtape/examples/shared/standard_output.h"
#include "qtape/examples/train_mlp/report.h"

namespace {

using namespace qtape;
using examples::Limits;
using examples::print;
using examples::Settings;

struct Arguments {
  Settings settings;
  int threads = default_threads();
  std::string save;
  std::string checkpoint;
  int64_t checkpoint_every = 0;
  std::string resume;
  std::string report;
};

void add_options(examples::CommandLine& line, Arguments& arguments) {
  line.add_settings(arguments.settings);
  line.add(examples::threads_option(arguments.threads));
  line.add({"--save", &arguments.save, "write the trained model here"});
  line.add({"--checkpoint", &arguments.checkpoint, "write a checkpoint here every epoch"});
  line.add({"--checkpoint-every", &arguments.checkpoint_every,
            "and also every so many steps; 0: epochs only", Limits<int64_t>{.low = 0}});
  line.add({"--resume", &arguments.resume,
            "go on from this checkpoint, with its settings; checkpoints go there as well "
            "unless --checkpoint names another file"});
  line.add(examples::report_option(arguments.report));
}

std::string describe(const Settings& s, const data::Split& data) {
  const auto bits = [](int64_t b) {
    return b == 0 ? std::string("float") : fmt::format("{} bits", b);
  };
  return fmt::format(
      "{} training and {} test images of {}, model {}, weights {}, activations {}",
      data.train.size(), data.test.size(), data_name(s), to_string_view(s.model),
      bits(s.weight_bits), bits(s.activation_bits));
}

void finish(const Arguments& arguments, const examples::Training& training,
            const examples::RunResult& result, examples::OutputFiles& files) {
  print("test accuracy {:.2f} %, median step {:.0f} us\n", result.test.accuracy,
        result.step_us);
  if (result.skipped_batches + result.non_finite_elements > 0) {
    print("skipped {} batches without a finite loss, {} NaN or infinite elements\n",
          result.skipped_batches, result.non_finite_elements);
  }
  print("parameters sha256 {}\noutputs sha256 {}\n", result.parameters_sha256,
        result.test.outputs_sha256);
  files.save(arguments.save, [&](const std::string& path) { training.save(path); });
  files.write(arguments.report, report_json(training.settings(), arguments.threads, result));
  files.require_written();
}

/// Throws Interrupted, which says what is left of the run.
[[noreturn]] void fail_interrupted(int signal, const examples::Training& training,
                                   const std::string& checkpoint) {
  const std::string left = checkpoint.empty()
                               ? "nothing is kept without --checkpoint"
                               : fmt::format("go on with --resume {}", checkpoint);
  throw examples::Interrupted(signal, fmt::format("stopped by {} after step {} of {}; {}",
                                                  examples::signal_name(signal),
                                                  training.step(), training.steps(), left));
}

void train(const Arguments& arguments, examples::Training& training,
           examples::OutputFiles& files) {
  examples::ProgressDisplay display(training.step());
  const examples::Interruption interruption;
  const examples::RunResult result = training.run(
      {.threads = arguments.threads,
       .checkpoint = arguments.checkpoint,
       .checkpoint_every = arguments.checkpoint_every,
       .on_step = [&](const examples::Progress& progress) { display.step(progress); },
       .on_epoch =
           [&](const examples::EpochResult& epoch) {
             display.epoch(epoch.epoch, epoch.loss,
                           fmt::format("test accuracy {:.2f} %", epoch.test_accuracy));
           },
       .stop = [&] { return interruption.signal() != 0; }});
  if (result.stopped) {
    fail_interrupted(interruption.signal(), training, arguments.checkpoint);
  }
  finish(arguments, training, result, files);
}

/// Takes the checkpoint to go on from, if there is one, and its settings.
std::optional<Model> resume(const examples::CommandLine& line, Arguments& arguments) {
  if (arguments.resume.empty()) return std::nullopt;
  Model checkpoint = load_model(arguments.resume);
  const Settings resumed = examples::settings_of(checkpoint);
  line.require_same(arguments.settings, resumed);
  arguments.settings = resumed;
  // What is read from a pipe cannot be written again.
  if (arguments.checkpoint.empty() && std::filesystem::is_regular_file(arguments.resume)) {
    arguments.checkpoint = arguments.resume;
  }
  return checkpoint;
}

void run(const examples::CommandLine& line, Arguments& arguments) {
  std::optional<Model> checkpoint = resume(line, arguments);
  validate(arguments.settings);
  examples::OutputFiles files;
  files.expect("--save", arguments.save);
  files.expect("--checkpoint", arguments.checkpoint);
  files.expect_text("--report", arguments.report);
  const examples::FileLock lock(arguments.checkpoint);
  const data::Split data = examples::load_data(arguments.settings);
  print("{}\n", describe(arguments.settings, data));
  examples::Training training = checkpoint ? examples::Training(std::move(*checkpoint), data)
                                           : examples::Training(arguments.settings, data);
  train(arguments, training, files);
}

}  // namespace

int main(int argc, char** argv) try {
  examples::CommandLine line("train_mlp",
                             "Trains a quantization-aware ReLU network on digits.");
  Arguments arguments;
  add_options(line, arguments);
  return examples::run_program(line.app(), argc, argv, [&] {
    run(line, arguments);
    return 0;
  });
} catch (const std::exception& error) {
  std::fprintf(stderr, "train_mlp: %s\n", error.what());
  return 1;
}
