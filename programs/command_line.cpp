#include "qtape/programs/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <span>
#include <sstream>
#include <type_traits>

#include "qtape/core/error.h"
#include "qtape/core/nearest.h"
#include "qtape/core/out_of_memory.h"
#include "qtape/core/printable.h"
#include "qtape/core/settings.h"
#include "qtape/programs/command_pages.h"
#include "qtape/programs/console/standard_output.h"

namespace qtape::programs {
namespace {

/// Returns "1 to 100" or "0 or more".
template <class T>
std::string span_of(const Limits<T>& limits) {
  return limits.bounded() ? fmt::format("{} to {}", limits.low, limits.high)
                          : fmt::format("{} or more", limits.low);
}

/// Parses all of `text` as a number; false if it is not a number or too large for its type.
/// CLI11 reports the latter only through errno.
template <class T>
bool parse(const std::string& text, T& value) {
  errno = 0;
  return CLI::detail::lexical_cast(text, value) && (!std::is_integral_v<T> || errno != ERANGE);
}

/// Accepts values in `limits`.
template <class T>
CLI::Validator inside(const Limits<T>& limits) {
  const std::string span = span_of(limits);
  const std::string zero = limits.zero.empty() ? "" : fmt::format("0 ({}) or ", limits.zero);
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        T value{};
        const bool parsed = parse(text, value);
        if (parsed && limits.contain(value)) return "";
        const bool beyond = !parsed && errno == ERANGE && !limits.bounded();
        return fmt::format("expected {}{}, got {}", zero,
                           beyond ? fmt::format("{} to {}", limits.low, limits.high) : span,
                           text);
      },
      (zero.empty() ? "" : "0 or ") + span);
}

CLI::Option* added(CLI::App& app, const Option& option, bool* value) {
  return app.add_flag(option.name, *value, std::string(option.doc));
}

template <class T>
CLI::Option* added(CLI::App& app, const Option& option, T* value) {
  CLI::Option* result = app.add_option(option.name, *value, std::string(option.doc));
  if constexpr (is_optional<T>) {
    if (*value) result->default_str(fmt::format("{}", **value));
    return result;
  } else if constexpr (is_vector<T>) {
    result->delimiter(',')->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
  return result->capture_default_str();
}

CLI::Option* added(CLI::App& app, const Option& option, const Spelling& value) {
  CLI::Option* result =
      app.add_option_function<std::string>(option.name, value.set, std::string(option.doc));
  take_one_of(*result, value.names);
  return result->default_str(value.value);
}

/// Throws ArgumentError for an unknown command; CLI11 would only report that a subcommand is
/// required.
void require_known_command(const CLI::App& app, int argc, char** argv) {
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  if (commands.empty() || argc < 2 || argv[1][0] == '-') return;
  const std::string given = argv[1];
  std::vector<std::string> names;
  for (const CLI::App* command : commands) names.push_back(command->get_name());
  const auto found = std::ranges::find(names, given);
  if (found != names.end()) {
    const CLI::App* inner = commands[static_cast<size_t>(found - names.begin())];
    return require_known_command(*inner, argc - 1, argv + 1);
  }
  const std::string near = nearest(given, names);
  if (2 * edit_distance(given, near) <= near.size()) {
    fail<ArgumentError>("unknown command {}; the nearest is {}", given, near);
  }
  fail<ArgumentError>("unknown command {}; expected one of {}", given, fmt::join(names, ", "));
}

/// Returns the command that was given, or the program.
const CLI::App& innermost(const CLI::App& app) {
  const auto commands = app.get_subcommands();
  return commands.empty() ? app : innermost(*commands[0]);
}

/// Throws ArgumentError for arguments that begin like an option but are not one. CLI11 would
/// report a missing or an unexpected argument instead.
void require_known_options(const CLI::App& app) {
  for (const std::string& given : app.remaining(true)) {
    if (given.size() < 2 || given[0] != '-' || given == "--") continue;
    std::error_code ignored;
    if (std::filesystem::exists(given, ignored)) {
      fail<ArgumentError>("unknown option {}; the file of this name is ./{}", given, given);
    }
    std::vector<std::string> names;
    for (const CLI::Option* option : innermost(app).get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
    const std::string near = nearest(given, names);
    require<ArgumentError>(near != given, "{}: expected after the command {}, got before it",
                           given, innermost(app).get_name());
    const bool close = 2 * edit_distance(given, near) <= near.size();
    fail<ArgumentError>("unknown option {}{}", given, close ? "; the nearest is " + near : "");
  }
}

/// Throws ArgumentError for an option with an empty value, as of an unset variable of a shell.
void require_values(const CLI::App& app) {
  for (const CLI::Option* option : innermost(app).get_options()) {
    for (const std::string& value : option->results()) {
      require<ArgumentError>(!value.empty(), "{}: expected a value, got an empty one",
                             option->get_name());
    }
  }
}

/// Throws ArgumentError for a list with an empty element, which CLI11 leaves out.
void require_elements(const CLI::App& app, std::span<char* const> arguments) {
  for (const CLI::Option* option : innermost(app).get_options()) {
    if (option->get_delimiter() == '\0') continue;
    for (size_t i = 1; i < arguments.size(); ++i) {
      const std::string name = option->get_name(), argument = arguments[i];
      const bool joined = argument.starts_with(name + "=");
      if (!joined && arguments[i - 1] != name) continue;
      const std::string list = joined ? argument.substr(name.size() + 1) : argument;
      const bool empty =
          list.starts_with(',') || list.ends_with(',') || list.find(",,") != std::string::npos;
      require<ArgumentError>(!empty, "{}: expected a value before and after each comma, got {}",
                             name, list);
    }
  }
}

/// Returns the message of a CLI11 error in plain words.
std::string text_of(const CLI::ParseError& error) {
  const std::string text = error.what();
  const std::string name = text.substr(0, text.find(':'));
  if (text.find(": At Most 1 required") != std::string::npos) return name + " is given twice";
  if (text.find(": 1 required ") != std::string::npos) return name + ": a value is missing";
  return text;
}

/// Prints the text of --help or --version.
void print_asked(CLI::App& app, const CLI::Success& asked) {
  std::ostringstream out;
  (void)app.exit(asked, out, out);
  console::print_text(out.str());
}

/// Parses the command line; false if --help or --version was given, so that nothing is left to
/// run.
bool parse(CLI::App& app, int argc, char** argv) {
  try {
    require_known_command(app, argc, argv);
    app.parse(argc, argv);
    require_values(app);
    require_elements(app, {argv, static_cast<size_t>(argc)});
    return true;
  } catch (const CLI::Success& asked) {
    print_asked(app, asked);
    return false;
  } catch (const CLI::ParseError& error) {
    require_known_options(app);
    fail<ArgumentError>("{}", text_of(error));
  }
}

}  // namespace

std::string option_name(std::string_view key) {
  std::string name = fmt::format("--{}", key);
  std::ranges::replace(name, '_', '-');
  return name;
}

void take_one_of(CLI::Option& option, std::vector<std::string> names) {
  // A transform instead of a check, so that what takes the value receives one of the names.
  std::string description = fmt::format("{{{}}}", fmt::join(names, ","));
  const auto take = [names = std::move(names)](std::string& text) -> std::string {
    const auto found =
        std::ranges::find(names, CLI::detail::to_lower(text), CLI::detail::to_lower);
    if (found == names.end())
      return fmt::format("expected one of {}, got {}", fmt::join(names, ", "), text);
    text = *found;
    return "";
  };
  option.transform(CLI::Validator(take, std::move(description)));
}

CLI::Option& add_option(CLI::App& app, const Option& option) {
  CLI::Option& result =
      *std::visit([&](const auto& value) { return added(app, option, value); }, option.value);
  std::visit(
      [&]<class L>(const L& limits) {
        if constexpr (!std::is_same_v<L, std::monostate>) result.check(inside(limits));
      },
      option.limits);
  return result;
}

std::string kept_value(const Section& section) {
  const auto text = [](const Section::Setting& setting) {
    const auto* name = std::get_if<std::string>(&setting);
    return name != nullptr ? printable(*name) : settings::shown(setting);
  };
  // The elements of a list follow its length.
  std::vector<std::string> elements;
  for (const auto& [key, setting] : section.settings) {
    if (key != "value") elements.push_back(text(setting));
  }
  if (!elements.empty()) return fmt::format("{}", fmt::join(elements, ","));
  const auto found = section.settings.find("value");
  return found == section.settings.end() ? "none" : text(found->second);
}

bool given(const CLI::App& app, const std::string& option) {
  const CLI::Option* found = app.get_option_no_throw(option);
  return found != nullptr && found->count() > 0;
}

void refuse_useless(const CLI::App& app, bool useless, std::string_view why,
                    std::initializer_list<const char*> options) {
  for (const char* option : options) {
    require<ArgumentError>(!useless || !given(app, option), "{} {}", option, why);
  }
}

bool any_given(const std::vector<CLI::Option*>& options) {
  return std::ranges::any_of(options,
                             [](const CLI::Option* each) { return each->count() > 0; });
}

CommandLine::CommandLine(const std::string& name, const std::string& description)
    : app_(std::make_unique<CLI::App>(description, name)) {
  app_->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

CommandLine::~CommandLine() = default;

Option threads_option(int& threads) {
  return {"--threads", &threads, "threads; the result does not depend on them",
          Limits<int64_t>{1, 1024}};
}

Option json_option(std::string& path) {
  return {"--json", &path, "write settings and results here as JSON; - is standard output"};
}

Option report_option(std::string& folder) { return {"--report", &folder, report_help}; }

template <class T>
CLI::Validator range(T low, T high) {
  return inside(Limits<T>{low, high});
}
template CLI::Validator range(int, int);
template CLI::Validator range(int64_t, int64_t);
template CLI::Validator range(uint64_t, uint64_t);
template CLI::Validator range(double, double);

int run_parsed(CLI::App& app, int argc, char** argv, const std::function<int()>& run) {
  const std::string name = app.get_name();
  app.set_version_flag("--version", name + " " + QTAPE_VERSION, "Print the version and exit");
  add_pages(app, QTAPE_VERSION);
  if (!parse(app, argc, argv)) return 0;
  const auto commands = app.get_subcommands();
  return during("running", commands.empty() ? name : commands[0]->get_name(), run);
}

}  // namespace qtape::programs
