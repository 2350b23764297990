// The grid of a sweep: a command and the values of its settings.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace qtape::tool {

/// One run: the options that differ from the others.
struct SweepRun {
  std::string name;  ///< "weight_bits=4,seed=2", a name of a folder
  /// Settings and values, as written in the grid; strings without quotes.
  std::vector<std::pair<std::string, std::string>> settings;
  std::vector<std::string> arguments;  ///< "--weight-bits", "4", "--seed", "2"
};

struct SweepGrid {
  std::vector<std::string> command;  ///< program and options of all runs
  std::vector<SweepRun> runs;        ///< the last setting varies fastest
};

/// Reads a grid: `{"command": ["train_mlp", "--epochs", "3"], "settings": {"weight_bits": [4,
/// 8], "seed": [1, 2]}}`. Values are numbers, strings, and booleans for flags. Throws IoError,
/// and FormatError that names the file and the member.
SweepGrid read_grid(const std::string& path);

/// Throws ArgumentError that names the first setting without an option in `help`, the help text
/// of the command.
void require_options(const SweepGrid& grid, const std::string& help);

/// True if `help` lists the option.
bool has_option(const std::string& help, const std::string& option);

}  // namespace qtape::tool
