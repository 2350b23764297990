// Command lines of qtape, with arguments that zeros separate: accepted, or refused by an error.
// No command runs.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "qtape/tests/fuzz/reads.h"
#include "qtape/tools/qtape/commands.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return qtape::fuzz::reads(data, size, [](std::string_view bytes) {
    std::vector<std::string> arguments;
    while (!bytes.empty()) {
      const size_t end = std::min(bytes.find('\0'), bytes.size());
      arguments.emplace(arguments.begin(), bytes.substr(0, end));  // CLI11 reads from the back
      bytes.remove_prefix(std::min(end + 1, bytes.size()));
    }
    static CLI::App app("Fuzzed", "qtape");
    static const auto commands = qtape::tool::add_commands(app);
    try {
      app.parse(std::move(arguments));
    } catch (const CLI::Error&) {
    }
  });
}
