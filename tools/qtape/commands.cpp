#include "qtape/tools/qtape/commands.h"

#include <CLI/CLI.hpp>

#include "qtape/tools/qtape/targets.h"

namespace qtape::tool {

/// Declares a command below an app; defined in the command's file.
using AddCommand = Command(CLI::App&);

namespace {

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

std::vector<Command> add_commands(CLI::App& app) {
  app.require_subcommand(1);
  std::vector<Command> commands;
  for (const Group& group : groups()) {
    for (AddCommand* add : group.commands) {
      commands.push_back(add(app));
      commands.back().app->group(group.name);
    }
  }
  return commands;
}

int run_given(const std::vector<Command>& commands) {
  for (const Command& each : commands) {
    if (each.app->parsed()) return each.run();
  }
  return 0;
}

}  // namespace qtape::tool
