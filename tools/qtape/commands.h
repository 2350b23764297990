// A command of the qtape tool: a file that declares its options and runs it, and its name in
// commands.cpp, or in targets.cpp below `export`.
#pragma once

#include <functional>
#include <vector>

namespace CLI {
class App;
}

namespace qtape::tool {

/// A declared command. `run` returns the exit code; options are read by then.
struct Command {
  CLI::App* app = nullptr;
  std::function<int()> run;
};

/// Declares all commands of qtape.
std::vector<Command> add_commands(CLI::App& app);
/// Runs the command that was given; returns its exit code, 0 for none.
int run_given(const std::vector<Command>& commands);

}  // namespace qtape::tool
