// qtape: inspects, runs, calibrates, trains and exports saved models.
#include <CLI/CLI.hpp>
#include <exception>

#include "qtape/programs/command_line.h"
#include "qtape/programs/console/program.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/targets.h"

namespace {

using namespace qtape;

/// Declares a command below the app that it is given.
using AddCommand = tool::Command (*)(CLI::App&);

/// `qtape export` and its commands.
tool::Command add_export(CLI::App& app) {
  CLI::App& all = *app.add_subcommand(
      "export", "Export an integer program for other programs and machines");
  all.require_subcommand(1);
  std::vector<tool::Command> commands;
  for (const tool::Target& target : tool::targets()) commands.push_back(target.add_export(all));
  return {&all, [commands] {
            for (const tool::Command& each : commands) {
              if (each.app->parsed()) return each.run();
            }
            return 0;
          }};
}

/// Commands by the group in which the help lists them.
struct Group {
  const char* name;
  std::vector<AddCommand> commands;
};
const std::vector<Group>& groups() {
  using namespace tool;
  static const std::vector<Group> all = {
      {"Models",
       {add_import, add_fold, add_inspect, add_replay, add_graph, add_weights, add_profile}},
      {"Quantization and training",
       {add_calibrate, add_train, add_search, add_quantizers, add_report}},
      {"Integers", {add_convert, add_verify, add_lint, add_export}}};
  return all;
}

}  // namespace

int main(int argc, char** argv) try {
  CLI::App app("Inspects, runs, calibrates, trains, verifies and exports saved qtape models.",
               "qtape");
  app.require_subcommand(1);
  std::vector<tool::Command> commands;
  for (const Group& group : groups()) {
    for (const AddCommand add : group.commands) {
      commands.push_back(add(app));
      commands.back().app->group(group.name);
    }
  }
  return examples::run_program(app, argc, argv, [&] {
    for (const tool::Command& each : commands) {
      if (each.app->parsed()) return each.run();
    }
    return 0;
  });
} catch (const std::exception& error) {
  return console::report_failure("qtape", error);
}
