// qtape: inspects, runs, calibrates, trains and exports saved models.
#include <CLI/CLI.hpp>
#include <exception>
#include <vector>

#include "qtape/programs/command_line.h"
#include "qtape/programs/console/program.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/targets.h"

namespace qtape::tool {

/// Declares a command below an app; defined in the command's file.
using AddCommand = Command(CLI::App&);

namespace {

/// Runs the command that was given; returns its exit code.
int run_given(const std::vector<Command>& commands) {
  for (const Command& each : commands) {
    if (each.app->parsed()) return each.run();
  }
  return 0;
}

/// `qtape export` and its commands.
Command add_export(CLI::App& app) {
  CLI::App& all = *app.add_subcommand(
      "export", "Export an integer program for other programs and machines");
  all.require_subcommand(1);
  std::vector<Command> commands;
  for (const Target& target : targets()) commands.push_back(target.add_export(all));
  return {&all, [commands] { return run_given(commands); }};
}

}  // namespace

AddCommand add_import, add_fold, add_inspect, add_replay, add_graph, add_weights, add_profile,
    add_calibrate, add_train, add_search, add_sweep, add_quantizers, add_report, add_convert,
    add_verify, add_compare, add_lint;

namespace {

/// Commands by the group in which the help lists them.
struct Group {
  const char* name;
  std::vector<AddCommand*> commands;
};
std::vector<Group> groups() {
  return {
      {"Models",
       {add_import, add_fold, add_inspect, add_replay, add_graph, add_weights, add_profile}},
      {"Quantization and training",
       {add_calibrate, add_train, add_search, add_sweep, add_quantizers, add_report}},
      {"Integers", {add_convert, add_verify, add_compare, add_lint, add_export}}};
}

}  // namespace
}  // namespace qtape::tool

int main(int argc, char** argv) try {
  using namespace qtape;
  CLI::App app("Inspects, runs, calibrates, trains, verifies and exports saved qtape models.",
               "qtape");
  app.require_subcommand(1);
  std::vector<tool::Command> commands;
  for (const tool::Group& group : tool::groups()) {
    for (tool::AddCommand* add : group.commands) {
      commands.push_back(add(app));
      commands.back().app->group(group.name);
    }
  }
  return examples::run_program(app, argc, argv, [&] { return tool::run_given(commands); });
} catch (const std::exception& error) {
  return qtape::console::report_failure("qtape", error);
}
