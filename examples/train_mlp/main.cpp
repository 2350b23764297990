// train_mlp: trains a quantization-aware network on digits, saves it, reports what it reached.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <filesystem>

#include "qtape/examples/shared/command_line.h"
#include "qtape/examples/shared/file_lock.h"
#include "qtape/examples/shared/interruption.h"
#include "qtape/examples/shared/output_files.h"
#include "qtape/examples/shared/progress.h"
#include "qtape/examples/shared/standard_output.h"
#include "qtape/examples/train_mlp/report.h"

namespace {

using namespace qtape;
using examples::Architecture;
using examples::at_least;
using examples::print;
using examples::Quantization;
using examples::range;
using examples::Settings;
using examples::spelling_of;

struct Arguments {
  Settings settings;
  std::string model = "MLP";
  std::string ste = "ClippedIdentity";
  std::string scale_mode = "EMA";
  std::string exact;
  int threads = default_threads();
  std::string save;
  std::string checkpoint;
  int64_t checkpoint_every = 0;
  std::string resume;
  std::string report;
};

/// 0 for float, else the bits that a quantizer takes.
const CLI::Validator bits_validator(
    [](std::string& text) -> std::string {
      const bool one_digit =
          text.size() == 1 && text[0] >= '0' && text[0] <= '9' && text != "1";
      const bool teens = text.size() == 2 && text[0] == '1' && text[1] >= '0' && text[1] <= '6';
      return one_digit || teens ? "" : "expected 0 (float) or 2 to 16, got " + text;
    },
    "0 or 2 to 16");

void add_network(CLI::App& app, Arguments& arguments) {
  Settings& s = arguments.settings;
  app.add_option("--data", s.data,
                 "directory with MNIST-format IDX files, plain or .gz; without it, digits are "
                 "generated");
  app.add_option("--samples", s.samples, "training digits to generate")
      ->check(range<int64_t>(1, 1000000))
      ->capture_default_str();
  app.add_option("--model", arguments.model,
                 "how the layers are put together: one after another, with skip connections, "
                 "the first one cut in two")
      ->transform(spelling_of<Architecture>())
      ->capture_default_str();
  app.add_option("--layers", s.layers, "widths of the hidden layers")
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(range<int64_t>(1, 65536))
      ->capture_default_str();
  app.add_option("--weight-bits", s.weight_bits, "bits of weights, 0 = float")
      ->check(bits_validator)
      ->capture_default_str();
  app.add_option("--activation-bits", s.activation_bits, "bits of activations, 0 = float")
      ->check(bits_validator)
      ->capture_default_str();
  app.add_option("--ste", arguments.ste, "straight-through estimator")
      ->transform(spelling_of<Ste>())
      ->capture_default_str();
  app.add_option("--scale-mode", arguments.scale_mode, "where scales come from")
      ->transform(spelling_of<Quantization>())
      ->capture_default_str();
}

void add_training(CLI::App& app, Arguments& arguments) {
  Settings& s = arguments.settings;
  app.add_option(
         "--exact", arguments.exact,
         "compute on integer codes between quantizers, requantized by this requantization; "
         "without it, in floats")
      ->transform(spelling_of<Requantization>());
  app.add_option("--quantize-after", s.schedule.delay, "steps in float before quantizers apply")
      ->check(at_least(0))
      ->capture_default_str();
  app.add_option("--freeze-after", s.schedule.freeze, "step from which observers stand still")
      ->check(at_least(0));
  app.add_option("--warm-up", s.schedule.warm_up, "steps that scales are averaged over evenly")
      ->check(at_least(0))
      ->capture_default_str();
  app.add_option("--epochs", s.epochs, "passes over the training data")
      ->check(range<int64_t>(1, 100000))
      ->capture_default_str();
  app.add_option("--batch", s.batch, "images per step")
      ->check(range<int64_t>(1, 1000000))
      ->capture_default_str();
  app.add_option("--lr", s.learning_rate, "learning rate at the start; decays to 0 by cosine")
      ->check(range(0.0, 10.0))
      ->capture_default_str();
  app.add_option("--seed", s.seed, "seed of weights and order")
      ->check(at_least(0))
      ->capture_default_str();
}

void add_files(CLI::App& app, Arguments& arguments) {
  app.add_option("--threads", arguments.threads, "threads; the result does not depend on them")
      ->check(range(1, 1024))
      ->capture_default_str();
  app.add_option("--save", arguments.save, "write the trained model here");
  app.add_option("--checkpoint", arguments.checkpoint, "write a checkpoint here every epoch");
  app.add_option("--checkpoint-every", arguments.checkpoint_every,
                 "and also every so many steps; 0: epochs only")
      ->check(at_least(0))
      ->capture_default_str();
  app.add_option("--resume", arguments.resume,
                 "go on from this checkpoint, with its settings; checkpoints go there as well "
                 "unless --checkpoint names another file");
  app.add_option("--report", arguments.report,
                 "write settings and results here as JSON; - is standard output");
}

/// A setting given beside --resume must be the checkpoint's own.
void check_given(const CLI::App& app, const Settings& given, const Settings& resumed) {
  const auto same = [&](const char* name, const auto& a, const auto& b) {
    require<ArgumentError>(app.count(name) == 0 || a == b,
                           "{}: the checkpoint was made with another value", name);
  };
  same("--data", given.data, resumed.data);
  same("--samples", given.samples, resumed.samples);
  same("--model", given.model, resumed.model);
  same("--layers", given.layers, resumed.layers);
  same("--weight-bits", given.weight_bits, resumed.weight_bits);
  same("--activation-bits", given.activation_bits, resumed.activation_bits);
  same("--ste", given.ste, resumed.ste);
  same("--scale-mode", given.scale_mode, resumed.scale_mode);
  same("--exact", given.exact, resumed.exact);
  same("--quantize-after", given.schedule.delay, resumed.schedule.delay);
  same("--freeze-after", given.schedule.freeze, resumed.schedule.freeze);
  same("--warm-up", given.schedule.warm_up, resumed.schedule.warm_up);
  same("--epochs", given.epochs, resumed.epochs);
  same("--batch", given.batch, resumed.batch);
  same("--lr", given.learning_rate, resumed.learning_rate);
  same("--seed", given.seed, resumed.seed);
}

std::string describe(const Settings& s, const data::Split& data) {
  const auto bits = [](int64_t b) {
    return b == 0 ? std::string("float") : fmt::format("{} bits", b);
  };
  return fmt::format(
      "{} training and {} test images of {}, model {}, weights {}, activations {}",
      data.train.size(), data.test.size(), s.data.empty() ? "generated digits" : s.data,
      to_string_view(s.model), bits(s.weight_bits), bits(s.activation_bits));
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
std::optional<Model> resume(const CLI::App& app, Arguments& arguments) {
  if (arguments.resume.empty()) return std::nullopt;
  Model checkpoint = load_model(arguments.resume);
  const Settings resumed = examples::settings_of(checkpoint);
  check_given(app, arguments.settings, resumed);
  arguments.settings = resumed;
  // What is read from a pipe cannot be written again.
  if (arguments.checkpoint.empty() && std::filesystem::is_regular_file(arguments.resume)) {
    arguments.checkpoint = arguments.resume;
  }
  return checkpoint;
}

void run(const CLI::App& app, Arguments& arguments) {
  arguments.settings.model = *from_string<Architecture>(arguments.model);
  if (!arguments.exact.empty())
    arguments.settings.exact = from_string<Requantization>(arguments.exact);
  arguments.settings.ste = *from_string<Ste>(arguments.ste);
  arguments.settings.scale_mode = *from_string<Quantization>(arguments.scale_mode);
  std::optional<Model> checkpoint = resume(app, arguments);
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
  CLI::App app("Trains a quantization-aware ReLU network on digits.", "train_mlp");
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  Arguments arguments;
  add_network(app, arguments);
  add_training(app, arguments);
  add_files(app, arguments);
  return examples::run_program(app, argc, argv, [&] {
    run(app, arguments);
    return 0;
  });
} catch (const std::exception& error) {
  std::fprintf(stderr, "train_mlp: %s\n", error.what());
  return 1;
}
