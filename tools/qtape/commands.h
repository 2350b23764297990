// The commands of the qtape tool. A command is a file that declares its options and runs it, a
// function here and its place in the list of main.cpp. Those below `export` are in targets.cpp.
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

// Each declares a command below `app`.
Command add_import(CLI::App& app);
Command add_fold(CLI::App& app);
Command add_inspect(CLI::App& app);
Command add_graph(CLI::App& app);
Command add_replay(CLI::App& app);
Command add_weights(CLI::App& app);
Command add_profile(CLI::App& app);
Command add_calibrate(CLI::App& app);
Command add_train(CLI::App& app);
Command add_search(CLI::App& app);
Command add_quantizers(CLI::App& app);
Command add_report(CLI::App& app);
Command add_convert(CLI::App& app);
Command add_verify(CLI::App& app);
Command add_lint(CLI::App& app);

}  // namespace qtape::tool
