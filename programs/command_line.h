// Command lines of programs: options, enumerations and ranges, and exit codes for errors.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "qtape/core/enum_names.h"
#include "qtape/core/error.h"
#include "qtape/programs/settings.h"

namespace CLI {  // its header takes longer to compile than most programs
class App;
class Validator;
}  // namespace CLI

namespace qtape::examples {

/// A type-erased value of an enumeration.
struct Spelling {
  std::vector<std::string> names;
  std::string value;                            ///< default; empty: none
  std::function<void(const std::string&)> set;  ///< called with one of `names`
};

/// Destination of an option's value. A bool is a flag.
using OptionValue =
    std::variant<bool*, int*, int64_t*, double*, std::string*, std::optional<int64_t>*,
                 std::optional<double>*, std::vector<int64_t>*, Spelling>;

struct Option {
  std::string name;  ///< "--save"
  OptionValue value;
  std::string_view doc;
  std::variant<std::monostate, Limits<int64_t>, Limits<double>> limits = {};
};

/// Returns the option value that sets `value`.
template <class T>
OptionValue option_value(T& value) {
  if constexpr (NamedEnum<typename detail::Single<T>::type> && !is_vector<T>) {
    using E = typename detail::Single<T>::type;
    std::string shown;
    if constexpr (is_optional<T>) {
      if (value) shown = to_string_view(*value);
    } else {
      shown = to_string_view(value);
    }
    return Spelling{
        {enum_names<E>.begin(), enum_names<E>.end()},
        std::move(shown),
        [&value](const std::string& text) { value = from_string<E>(text).value(); }};
  } else {
    return &value;
  }
}

/// The options of a program. If an option is given several times, the last one applies.
class CommandLine {
 public:
  CommandLine(const std::string& name, const std::string& description);
  ~CommandLine();

  /// The value must outlive the command line; the help shows its current value as the default.
  void add(const Option& option);
  /// Adds one option per field.
  template <Described T>
  void add_settings(T& settings) {
    for_each_field<T>([&](const auto& each) {
      add({option_name(each.key), option_value(settings.*each.member), each.doc, each.limits});
    });
  }

  /// True if an option was given.
  bool given(const std::string& option) const;
  /// Throws ArgumentError if a given option differs from `resumed`, the settings of the run to
  /// continue.
  template <Described T>
  void require_same(const T& settings, const T& resumed) const {
    for_each_field<T>([&](const auto& each) {
      const std::string option = option_name(each.key);
      require<ArgumentError>(!given(option) || settings.*each.member == resumed.*each.member,
                             "{}: the checkpoint was made with another value", option);
    });
  }

  CLI::App& app() { return *app_; }

 private:
  std::unique_ptr<CLI::App> app_;
};

/// --threads, for programs that train.
Option threads_option(int& threads);
/// --json, for programs that train.
Option json_option(std::string& path);
/// Help text of --report.
inline constexpr const char* report_help = "folder for the record of the run, for qtape report";
/// --report, for programs that train.
Option report_option(std::string& folder);

/// Accepts `low` to `high`: "--threads: expected 1 to 1024, got 0". T is int, int64_t, uint64_t
/// or double.
template <class T>
CLI::Validator range(T low, T high);

/// Adds --version, parses, then calls `run`, with the error handling of console::run_program.
/// Wrong arguments are ArgumentErrors.
int run_program(CLI::App& app, int argc, char** argv, const std::function<int()>& run);

}  // namespace qtape::examples
