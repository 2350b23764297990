#include "qtape/programs/command_pages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <functional>
#include <iterator>
#include <vector>

namespace qtape::programs {
namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

/// Returns the options that the help lists.
std::vector<const CLI::Option*> options_of(const CLI::App& app) {
  return app.get_options(
      [](const CLI::Option* option) { return !option->get_group().empty(); });
}

/// Returns `text` as troff reads it: a backslash, a hyphen and a control character at the
/// beginning of a line have meanings there.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if ((c == '.' || c == '\'') && (result.empty() || result.back() == '\n')) result += "\\&";
    if (c == '-') result += '\\';
    result += c == '\\' ? "\\e" : std::string(1, c);
  }
  return result;
}

void write_options(const CLI::App& app, std::string& page) {
  const CLI::Formatter format;
  for (const CLI::Option* option : options_of(app)) {
    const bool positional = option->get_positional();
    fmt::format_to(std::back_inserter(page), ".TP\n\\fB{}\\fR{}\n{}\n",
                   escaped(format.make_option_name(option, positional)),
                   escaped(format.make_option_opts(option)),
                   escaped(format.make_option_desc(option)));
  }
}

/// Writes the commands of `app`, of which `before` are the names of its own.
void write_commands(const CLI::App& app, const std::string& before, std::string& page) {
  for (const CLI::App* command : commands_of(app)) {
    const std::string name = before + " " + command->get_name();
    fmt::format_to(std::back_inserter(page), ".SS {}\n{}.\n", escaped(name),
                   escaped(command->get_description()));
    write_options(*command, page);
    write_commands(*command, name, page);
  }
}

/// Returns the values in a type's name, "TEXT:{portable,cmsis-nn}".
std::vector<std::string> values_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t begin = type.find('{'), end = type.find('}');
  if (begin == std::string::npos || end == std::string::npos) return {};
  return CLI::detail::split(type.substr(begin + 1, end - begin - 1), ',');
}

struct Completion {
  std::vector<std::string> commands;  ///< a pattern each: "export c"
  std::string words;                  ///< a branch for each command: its options and commands
  std::string values;                 ///< a branch for each option with values
};

void complete(const CLI::App& app, const std::string& command, Completion& completion) {
  std::vector<std::string> words;
  for (const CLI::Option* option : options_of(app)) {
    for (const std::string& name : option->get_lnames()) {
      words.push_back("--" + name);
      const std::vector<std::string> values = values_of(*option);
      if (values.empty()) continue;
      fmt::format_to(std::back_inserter(completion.values), "  '{} --{}') words='{}' ;;\n",
                     command, name, fmt::join(values, " "));
    }
  }
  for (const CLI::App* each : commands_of(app)) {
    words.push_back(each->get_name());
    const std::string name =
        command.empty() ? each->get_name() : command + " " + each->get_name();
    completion.commands.push_back(fmt::format("'{}'", name));
    complete(*each, name, completion);
  }
  // Where there are no commands, words that do not begin like an option are files.
  const bool files = commands_of(app).empty();
  fmt::format_to(std::back_inserter(completion.words), "    '{}') {}words='{}' ;;\n", command,
                 files ? "[[ $current == -* ]] && " : "", fmt::join(words, " "));
}

void add_page(CLI::App& app, const char* name, const std::function<std::string()>& page) {
  // The error that --version throws: CLI11 prints its text.
  app.add_flag_callback(name, [page] { throw CLI::CallForVersion(page(), 0); })->group("");
}

}  // namespace

std::string manual_page(const CLI::App& app, const std::string& version) {
  std::string name = app.get_name();
  std::string capitals = name;
  std::ranges::transform(capitals, capitals.begin(),
                         [](unsigned char c) { return std::toupper(c); });
  std::string page = fmt::format(
      ".TH {} 1 \"\" \"qtape {}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n"
      ".SH SYNOPSIS\n.B {}\n{}[OPTION]...\n.SH OPTIONS\n",
      escaped(capitals), version, escaped(name), escaped(app.get_description()), escaped(name),
      commands_of(app).empty() ? "" : "COMMAND ");
  write_options(app, page);
  if (!commands_of(app).empty()) page += ".SH COMMANDS\n";
  write_commands(app, name, page);
  page +=
      ".SH EXIT STATUS\n.TP\n0\nsuccess\n.TP\n1\nan error, or a comparison found differences\n"
      ".TP\n2\nwrong arguments\n.TP\n128 + n\nended by signal n";
  return page;
}

std::string bash_completion(const CLI::App& app) {
  Completion completion;
  complete(app, "", completion);
  const std::string name = app.get_name();
  const std::string known = completion.commands.empty()
                                ? "''"
                                : fmt::format("{}", fmt::join(completion.commands, "|"));
  return fmt::format(R"(_{0}() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} command='' words='' i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$command${{command:+ }}${{COMP_WORDS[i]}}" in
    {1}) command+=${{command:+ }}${{COMP_WORDS[i]}} ;;
    esac
  done
  case "$command ${{COMP_WORDS[COMP_CWORD - 1]}}" in
{3}  *)
    case "$command" in
{2}    esac
    ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}}
complete -o default -F _{0} {0})",
                     name, known, completion.words, completion.values);
}

void add_pages(CLI::App& app, const std::string& version) {
  add_page(app, "--manual-page", [&app, version] { return manual_page(app, version); });
  add_page(app, "--bash-completion", [&app] { return bash_completion(app); });
}

}  // namespace qtape::programs
