// qtape: looks into saved models and runs them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "qtape/ops/core/error.h"
#include "qtape/ops/core/thread_count.h"
#include "qtape/tools/qtape/commands.h"

namespace {

using namespace qtape;

struct Commands {
  std::string model;
  tool::ReplayOptions replay{.threads = default_threads()};
  tool::CalibrateOptions calibrate{.threads = default_threads()};
  tool::QuantizersOptions quantizers{.threads = default_threads()};
  bool quantizers_off = false;
  bool no_sensitivity = false;
};

void add_model(CLI::App& command, std::string& model) {
  command.add_option("model", model, "model file")->required();
}

void add_data(CLI::App& command, std::string& data, int& threads) {
  command.add_option("--data", data,
                     "directory with MNIST-format IDX files; without it, generated digits");
  command.add_option("--threads", threads, "threads")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
}

void add_commands(CLI::App& app, Commands& c) {
  add_model(*app.add_subcommand("inspect", "Print nodes, quantizers and sizes"), c.model);
  CLI::App& replay = *app.add_subcommand("replay", "Run a model over test images");
  add_model(replay, c.replay.model);
  add_data(replay, c.replay.data, c.replay.threads);
  replay.add_flag("--float", c.quantizers_off, "switch the quantizers off");
}

void add_calibrate(CLI::App& app, tool::CalibrateOptions& o) {
  CLI::App& calibrate = *app.add_subcommand(
      "calibrate", "Fill quantizers from training images, adding them where there are none");
  add_model(calibrate, o.model);
  add_data(calibrate, o.data, o.threads);
  calibrate.add_option("--save", o.save, "write the calibrated model here");
  calibrate
      .add_option(
          "--observer", o.observer,
          "MinMax, MovingAverage, Histogram, Percentile, Mse, Kl, ClipStd, Mix; search: "
          "the best for each quantizer; all: a table")
      ->capture_default_str();
  calibrate
      .add_option("--weight-observer", o.weight_observer,
                  "the same for weights; a search tries all for them, too")
      ->capture_default_str();
  calibrate.add_option("--images", o.images, "training images to calibrate with")
      ->check(CLI::Range(int64_t{1}, int64_t{1000000}))
      ->capture_default_str();
  calibrate.add_option("--weight-bits", o.weight_bits, "bits of weights, where added")
      ->check(CLI::Range(2, 16))
      ->capture_default_str();
  calibrate
      .add_option("--activation-bits", o.activation_bits, "bits of activations, where added")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
}

void add_quantizers(CLI::App& app, Commands& c) {
  tool::QuantizersOptions& o = c.quantizers;
  CLI::App& quantizers =
      *app.add_subcommand("quantizers", "Report what each quantizer does and costs");
  add_model(quantizers, o.model);
  add_data(quantizers, o.data, o.threads);
  quantizers.add_option("--json", o.json, "write the report here as JSON");
  quantizers.add_option("--images", o.images, "test images to report on")
      ->check(CLI::Range(int64_t{1}, int64_t{1000000}))
      ->capture_default_str();
  quantizers.add_flag("--no-sensitivity", c.no_sensitivity, "do not score quantizers alone");
}

void run(const CLI::App& app, Commands& c) {
  c.replay.quantize = !c.quantizers_off;
  c.quantizers.sensitivity = !c.no_sensitivity;
  if (app.got_subcommand("inspect")) tool::inspect(c.model);
  if (app.got_subcommand("replay")) tool::replay(c.replay);
  if (app.got_subcommand("calibrate")) tool::calibrate(c.calibrate);
  if (app.got_subcommand("quantizers")) tool::report_quantizers(c.quantizers);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Looks into saved qtape models, runs and calibrates them.", "qtape");
  app.require_subcommand(1);
  Commands commands;
  add_commands(app, commands);
  add_calibrate(app, commands.calibrate);
  add_quantizers(app, commands);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "qtape: {}\n", error.what());
    return 2;
  }
  try {
    run(app, commands);
  } catch (const ArgumentError& error) {
    fmt::print(stderr, "qtape: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "qtape: {}\n", error.what());
    return 1;
  }
  return 0;
}
