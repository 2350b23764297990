// Command lines of programs: options, enumerations and ranges, and exit codes for errors.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "qtape/core/described_settings.h"
#include "qtape/core/enum_names.h"
#include "qtape/core/error.h"
#include "qtape/core/fields.h"
#include "qtape/core/section.h"
#include "qtape/core/settings.h"
#include "qtape/core/value_kinds.h"
#include "qtape/programs/settings.h"

namespace CLI {  // its header takes longer to compile than most programs
class App;
class Option;
class Validator;
}  // namespace CLI

namespace qtape::programs {

/// A type-erased value of an enumeration.
struct Spelling {
  std::vector<std::string> names;
  std::string value;                            ///< default; empty: none
  std::function<void(const std::string&)> set;  ///< called with one of `names`
};

/// Destination of an option's value. A bool is a flag.
using OptionValue = std::variant<bool*, int*, int64_t*, uint64_t*, double*, std::string*,
                                 std::optional<int>*, std::optional<int64_t>*,
                                 std::optional<double>*, std::vector<int64_t>*, Spelling>;

struct Option {
  std::string name;  ///< "--save"
  OptionValue value;
  std::string_view doc;
  std::variant<std::monostate, Limits<int64_t>, Limits<uint64_t>, Limits<double>> limits = {};
};

/// Returns the option that sets `value`.
template <class T>
Option option_of(std::string name, T& value, std::string_view doc,
                 const settings::LimitsOf<T>& limits) {
  using E = settings::Single<T>;
  if constexpr (std::is_enum_v<E>) {
    std::string shown;
    if constexpr (is_optional<T>) {
      if (value) shown = to_string_view(*value);
    } else {
      shown = to_string_view(value);
    }
    const auto set = [&value](const std::string& text) {
      value = from_string<E>(text).value();
    };
    return {std::move(name), Spelling{limits.names(), std::move(shown), set}, doc};
  } else {
    return {std::move(name), &value, doc, limits};
  }
}

/// Returns "--weight-bits" for weight_bits.
std::string option_name(std::string_view key);

/// Lets `option` take each of `names` in any letter case, and replaces the given one by its
/// spelling in `names`.
void take_one_of(CLI::Option& option, std::vector<std::string> names);

/// Adds an option. Its value must outlive the app; the help shows its current value as the
/// default.
CLI::Option& add_option(CLI::App& app, const Option& option);
template <class T>
CLI::Option& add_option(CLI::App& app, std::string name, T& value, std::string_view doc,
                        const settings::LimitsOf<T>& limits = {}) {
  return add_option(app, option_of(std::move(name), value, doc, limits));
}

/// True if both are the same member of the same struct.
template <class A, class B>
constexpr bool same_member(A a, B b) {
  if constexpr (std::is_same_v<A, B>) {
    return a == b;
  } else {
    return false;
  }
}

/// Adds one option per field of `settings`, other than the members `without`.
template <Described T, class... Members>
std::vector<CLI::Option*> add_settings(CLI::App& app, T& settings, Members... without) {
  std::vector<CLI::Option*> added;
  size_t excluded = 0;
  for_each_field<T>([&](const auto& each) {
    if ((same_member(each.member, without) || ...)) {
      ++excluded;
      return;
    }
    added.push_back(
        &add_option(app, option_name(each.key), settings.*each.member, each.doc, each.limits));
  });
  require<Error>(excluded == sizeof...(without), "no row of fields() describes a member");
  return added;
}

/// Adds the option of one field for a value outside its struct.
template <Described T, class Value>
void add_setting(CLI::App& app, Value T::*member, Value& value) {
  bool found = false;
  for_each_field<T>([&](const auto& each) {
    if constexpr (std::is_same_v<Value T::*, std::decay_t<decltype(each.member)>>) {
      if (each.member != member) return;
      found = true;
      add_option(app, option_name(each.key), value, each.doc, each.limits);
    }
  });
  require<Error>(found, "no row of fields() describes this member");
}

/// True if `app` has the option and it was given.
bool given(const CLI::App& app, const std::string& option);
/// Throws ArgumentError, which ends with `why`, if one of `options` was given although
/// `useless`.
void refuse_useless(const CLI::App& app, bool useless, std::string_view why,
                    std::initializer_list<const char*> options);
/// True if one of the options was given.
bool any_given(const std::vector<CLI::Option*>& options);

/// Returns the setting "value" of a section for messages: "0.01", "none" if it has none.
std::string kept_value(const Section& section);
/// Throws ArgumentError, which names both values, if a given option of `app` differs from
/// `resumed`, the settings of the run to continue.
template <Described T>
void require_same(const CLI::App& app, const T& settings, const T& resumed) {
  for_each_field<T>([&](const auto& each) {
    const std::string option = option_name(each.key);
    if (!given(app, option) || settings.*each.member == resumed.*each.member) return;
    Section got{}, kept{};
    settings::put(settings.*each.member, "value", got);
    settings::put(resumed.*each.member, "value", kept);
    fail<ArgumentError>("{}: the checkpoint is from a run with {}, got {}", option,
                        kept_value(kept), kept_value(got));
  });
}

/// The options of a program. If an option is given several times, the last one applies.
class CommandLine {
 public:
  CommandLine(const std::string& name, const std::string& description);
  ~CommandLine();

  /// See add_option.
  void add(const Option& option) { add_option(*app_, option); }
  /// Adds one option per field.
  template <Described T>
  void add_settings(T& settings) {
    programs::add_settings(*app_, settings);
  }

  CLI::App& app() { return *app_; }
  const CLI::App& app() const { return *app_; }

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

/// Adds --version, parses, then returns the exit code of `run`, or 0 after --help and
/// --version; for the body of console::run_program. Wrong arguments are ArgumentErrors.
int run_parsed(CLI::App& app, int argc, char** argv, const std::function<int()>& run);

}  // namespace qtape::programs
