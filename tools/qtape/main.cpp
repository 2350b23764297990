// qtape: inspects, runs, calibrates, trains and exports saved models.
#include <CLI/CLI.hpp>
#include <exception>

#include "qtape/programs/command_line.h"
#include "qtape/programs/console/program.h"
#include "qtape/tools/qtape/commands.h"

int main(int argc, char** argv) try {
  using namespace qtape;
  CLI::App app("Inspects, runs, calibrates, trains, verifies and exports saved qtape models.",
               "qtape");
  const auto commands = tool::add_commands(app);
  return examples::run_program(app, argc, argv, [&] { return tool::run_given(commands); });
} catch (const std::exception& error) {
  return qtape::console::report_failure("qtape", error);
}
