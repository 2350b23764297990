// Command lines of qtape, with arguments that zeros separate: accepted, or refused by an error.
// No command runs.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "qtape/tests/fuzz/seeds.h"
#include "qtape/tests/fuzz/target.h"
#include "qtape/tools/qtape/commands.h"

namespace {

using namespace qtape;

void parse(std::string_view bytes) {
  std::vector<std::string> arguments;
  while (!bytes.empty()) {
    const size_t end = std::min(bytes.find('\0'), bytes.size());
    arguments.emplace(arguments.begin(), bytes.substr(0, end));  // CLI11 reads from the back
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
  }
  static CLI::App app("Fuzzed", "qtape");
  static const auto commands = tool::add_commands(app);
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::Error& error) {
    require<ArgumentError>(error.get_exit_code() == 0, "{}", error.what());
  }
}

const fuzz::Target target("arguments", parse,
                          [] { return fuzz::files("fuzz/corpus/arguments"); });

}  // namespace
