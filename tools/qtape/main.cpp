// qtape: inspects, runs, calibrates, trains and exports saved models.
#include <CLI/CLI.hpp>

#include "qtape/programs/command_line.h"
#include "qtape/programs/console/program.h"
#include "qtape/tools/qtape/commands.h"

int main(int argc, char** argv) {
  using namespace qtape;
  return console::run_program("qtape", [&] {
    CLI::App app("Inspects, runs, calibrates, trains, verifies and exports saved qtape models.",
                 "qtape");
    const auto commands = tool::add_commands(app);
    return programs::run_parsed(app, argc, argv, [&] { return tool::run_given(commands); });
  });
}
