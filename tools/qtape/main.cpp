// qtape: looks into saved models and runs them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "qtape/ops/core/error.h"
#include "qtape/ops/core/thread_count.h"
#include "qtape/tools/qtape/commands.h"

int main(int argc, char** argv) {
  using namespace qtape;
  CLI::App app("Looks into saved qtape models and runs them.", "qtape");
  app.require_subcommand(1);
  std::string model;
  CLI::App* inspect = app.add_subcommand("inspect", "Print nodes, quantizers and sizes");
  inspect->add_option("model", model, "model file")->required();

  tool::ReplayOptions options{.threads = default_threads()};
  CLI::App* replay = app.add_subcommand("replay", "Run a model over test images");
  replay->add_option("model", options.model, "model file")->required();
  replay->add_option("--data", options.data,
                     "directory with MNIST-format IDX files; without it, generated digits");
  replay->add_option("--threads", options.threads, "threads")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  bool off = false;
  replay->add_flag("--float", off, "switch the quantizers off");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "qtape: {}\n", error.what());
    return 2;
  }
  try {
    options.quantize = !off;
    if (inspect->parsed()) tool::inspect(model);
    if (replay->parsed()) tool::replay(options);
  } catch (const ArgumentError& error) {
    fmt::print(stderr, "qtape: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "qtape: {}\n", error.what());
    return 1;
  }
  return 0;
}
