#include "qtape/examples/shared/command_line.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <numeric>
#include <string_view>
#include <system_error>
#include <utility>

#include "qtape/core/error.h"
#include "qtape/examples/shared/interruption.h"
#include "qtape/examples/shared/standard_output.h"
#include "qtape/examples/shared/terminal.h"

namespace qtape::examples {
namespace {

/// Letters to change, insert or leave out between two words.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

/// CLI11 would only say that a subcommand is required. Throws ArgumentError.
void require_known_command(const CLI::App& app, int argc, char** argv) {
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  if (commands.empty() || argc < 2 || argv[1][0] == '-') return;
  const std::string given = argv[1];
  std::vector<std::string> names;
  for (const CLI::App* command : commands) names.push_back(command->get_name());
  if (std::ranges::find(names, given) != names.end()) return;
  const auto far = [&](const std::string& name) { return distance(given, name); };
  const std::string nearest = *std::ranges::min_element(names, {}, far);
  if (2 * far(nearest) <= nearest.size()) {
    fail<ArgumentError>("unknown command {}; the nearest is {}", given, nearest);
  }
  fail<ArgumentError>("unknown command {}; expected one of {}", given, fmt::join(names, ", "));
}

int run_checked(CLI::App& app, int argc, char** argv, const std::function<int()>& run) {
  try {
    require_known_command(app, argc, argv);
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help and --version
    const int code = app.exit(asked);
    require_standard_output();
    return code;
  }
  int code = 0;
  try {
    code = run();
  } catch (const std::system_error& error) {
    // fmt::print throws these, without a name, when standard output fails.
    if (std::ferror(stdout) != 0) fail_standard_output(error.code().value());
    throw;
  }
  require_standard_output();
  return code;
}

}  // namespace

CLI::Validator at_least(int64_t low) {
  return CLI::Validator(
      [low](std::string& text) -> std::string {
        int64_t value = 0;
        const bool inside = CLI::detail::lexical_cast(text, value) && value >= low;
        return inside ? "" : fmt::format("expected {} or more, got {}", low, text);
      },
      fmt::format("{} or more", low));
}

int run_program(CLI::App& app, int argc, char** argv, const std::function<int()>& run) {
  const std::string name = app.get_name();
  const auto report = [&](const std::exception& error, int code) {
    clear_line();
    std::fputs(fmt::format("{}: {}\n", name, error.what()).c_str(), stderr);
    return code;
  };
  prepare_standard_streams();
  app.set_version_flag("--version", name + " " + QTAPE_VERSION, "Print the version and exit");
  try {
    return run_checked(app, argc, argv, run);
  } catch (const CLI::ParseError& error) {
    return report(error, 2);
  } catch (const ArgumentError& error) {
    return report(error, 2);
  } catch (const Interrupted& error) {
    return report(error, 128 + error.signal());
  } catch (const std::exception& error) {
    return report(error, 1);
  }
}

}  // namespace qtape::examples
