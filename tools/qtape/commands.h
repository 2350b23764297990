// A command of the qtape tool: a file that declares its options and runs it, and its name in
// main.cpp, or in targets.cpp below `export`.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace qtape::tool {

/// A declared command. `run` returns the exit code; options are read by then.
struct Command {
  CLI::App* app = nullptr;
  std::function<int()> run;
};

}  // namespace qtape::tool
