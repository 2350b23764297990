#include "qtape/tools/qtape/sweep_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>

#include "qtape/core/printable.h"
#include "qtape/io/files.h"
#include "qtape/io/json_document.h"
#include "qtape/io/sha256.h"
#include "qtape/programs/command_line.h"

namespace qtape::tool {
namespace {

constexpr int64_t max_grid_bytes = int64_t{1} << 20;
constexpr size_t max_runs = 10000;
constexpr size_t longest_name = 200;

struct Setting {
  std::string key;
  std::vector<Json> values;
};

std::string shown(const Json& value) { return value.is_string() ? value.text() : value.dump(); }

std::vector<std::string> command_of(const Json& grid) {
  const auto* found = grid.find("command");
  require<FormatError>(found != nullptr && found->value.is_array() && found->value.size() > 0,
                       "/command: expected a list of a program and its options");
  std::vector<std::string> command;
  for (size_t i = 0; i < found->value.size(); ++i) {
    require<FormatError>(found->value[i].is_string(), "/command/{}: expected a string, got {}",
                         i, found->value[i].dump());
    command.push_back(found->value[i].text());
  }
  return command;
}

Setting setting_of(const std::string& key, const Json& values) {
  require<FormatError>(values.is_array() && values.size() > 0,
                       "/settings/{}: expected a list of values, got {}", printable(key),
                       values.dump());
  Setting setting{key, {}};
  for (size_t i = 0; i < values.size(); ++i) {
    const Json& value = values[i];
    require<FormatError>(value.is_string() || value.is_number() || value.is_boolean(),
                         "/settings/{}/{}: expected a number, a string or a boolean, got {}",
                         printable(key), i, value.dump());
    const bool repeated = std::ranges::count(setting.values, value) > 0;
    require<FormatError>(!repeated, "/settings/{}: {} is listed twice", printable(key),
                         value.dump());
    require<FormatError>(value.is_boolean() == values[0].is_boolean(),
                         "/settings/{}/{}: expected {}, as before, got {}", printable(key), i,
                         values[0].is_boolean() ? "a boolean" : "no boolean", value.dump());
    setting.values.push_back(value);
  }
  return setting;
}

/// A file name may not contain a slash, nor be too long: a hash replaces the end of long names.
std::string folder_name(std::string name) {
  const std::string hash = sha256_hex(std::as_bytes(std::span(name))).substr(0, 16);
  std::ranges::replace(name, '/', '_');
  if (name.size() <= longest_name) return name;
  size_t end = longest_name - hash.size();
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0u) == 0x80) --end;
  return name.substr(0, end) + hash;
}

SweepRun run_of(const std::vector<Setting>& settings, size_t index) {
  SweepRun run;
  for (size_t i = settings.size(); i-- > 0;) {
    const Setting& setting = settings[i];
    const Json& value = setting.values[index % setting.values.size()];
    index /= setting.values.size();
    run.settings.insert(run.settings.begin(), {setting.key, shown(value)});
  }
  for (const Setting& setting : settings) {
    const auto& [key, text] = run.settings[static_cast<size_t>(&setting - settings.data())];
    run.name += fmt::format("{}{}={}", run.name.empty() ? "" : ",", key, text);
    const bool flag = setting.values[0].is_boolean();
    if (flag && text == "false") continue;
    run.arguments.push_back(programs::option_name(key));
    if (!flag) run.arguments.push_back(text);
  }
  run.name = folder_name(run.name);
  return run;
}

SweepGrid grid_of(const Json& json) {
  require<FormatError>(json.is_object(),
                       "expected an object with \"command\" and \"settings\"");
  for (const auto& [key, value] : json.items()) {
    require<FormatError>(key == "command" || key == "settings",
                         "/{}: expected nothing; a grid has \"command\" and \"settings\"",
                         printable(key));
  }
  SweepGrid grid{.command = command_of(json), .runs = {}};
  const auto* found = json.find("settings");
  require<FormatError>(found != nullptr && found->value.is_object() && found->value.size() > 0,
                       "/settings: expected an object of lists of values");
  std::vector<Setting> settings;
  size_t count = 1;
  for (const auto& [key, values] : found->value.items()) {
    settings.push_back(setting_of(key, values));
    count *= settings.back().values.size();
    require<FormatError>(count <= max_runs, "/settings: expected at most {} runs", max_runs);
  }
  std::set<std::string> names;
  for (size_t i = 0; i < count; ++i) {
    grid.runs.push_back(run_of(settings, i));
    require<FormatError>(names.insert(grid.runs.back().name).second,
                         "/settings: two runs would be named {}",
                         printable(grid.runs.back().name));
  }
  return grid;
}

}  // namespace

SweepGrid read_grid(const std::string& path) {
  const std::string text = read_file(path, max_grid_bytes);
  return naming<FormatError>(path, [&] { return grid_of(parse_document(text)); });
}

bool has_option(const std::string& help, const std::string& option) {
  for (size_t at = help.find(option); at != std::string::npos; at = help.find(option, at + 1)) {
    const size_t end = at + option.size();
    const auto separates = [](char c) { return c == ' ' || c == ',' || c == '\n' || c == '='; };
    const bool begins = at == 0 || separates(help[at - 1]);
    if (begins && (end == help.size() || separates(help[end]))) return true;
  }
  return false;
}

void require_options(const SweepGrid& grid, const std::string& help) {
  std::vector<std::string> own = {"--json", "--report", "--checkpoint", "--resume"};
  for (const auto& [key, value] : grid.runs[0].settings) {
    const std::string option = programs::option_name(key);
    require<ArgumentError>(std::ranges::count(own, option) == 0,
                           "/settings/{}: the sweep sets {} of each run", printable(key),
                           option);
    require<ArgumentError>(has_option(help, option), "/settings/{}: {} has no option {}",
                           printable(key), grid.command[0], option);
  }
  for (const auto& [key, value] : grid.runs[0].settings) {
    own.push_back(programs::option_name(key));
  }
  for (size_t i = 1; i < grid.command.size(); ++i) {
    const std::string option = grid.command[i].substr(0, grid.command[i].find('='));
    require<ArgumentError>(std::ranges::count(own, option) == 0,
                           "/command/{}: the sweep sets {} of each run", i, printable(option));
  }
}

}  // namespace qtape::tool
