// Settings as data: range checks, and field lists to and from the settings of a Section.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <string_view>
#include <type_traits>

#include "qtape/core/error.h"
#include "qtape/core/fields.h"
#include "qtape/core/printable.h"
#include "qtape/core/section.h"

namespace qtape::settings {

/// Throws ArgumentError unless `value` is finite and >= 0. `owner` and `name` start the
/// message.
inline void require_non_negative(std::string_view owner, std::string_view name, double value) {
  require<ArgumentError>(std::isfinite(value) && value >= 0,
                         "{}: {} must be finite and >= 0, got {}", owner, name, value);
}

/// Throws ArgumentError unless `value` is finite and > 0.
inline void require_positive(std::string_view owner, std::string_view name, double value) {
  require<ArgumentError>(std::isfinite(value) && value > 0,
                         "{}: {} must be finite and > 0, got {}", owner, name, value);
}

/// Throws ArgumentError unless `value` is at least `least`.
inline void require_at_least(std::string_view owner, std::string_view name, int64_t least,
                             int64_t value) {
  require<ArgumentError>(value >= least, "{}: {} must be >= {}, got {}", owner, name, least,
                         value);
}

/// A setting as messages show it: texts in double quotes.
inline std::string shown(const Section::Setting& setting) {
  const auto* text = std::get_if<std::string>(&setting);
  if (text != nullptr) return fmt::format("\"{}\"", printable(*text));
  return std::visit([](const auto& value) { return fmt::format("{}", value); }, setting);
}

/// The value under `key` of `settings` as messages show it, "nothing" where there is none.
inline std::string shown(const std::map<std::string, Section::Setting>& settings,
                         const std::string& key) {
  const auto found = settings.find(key);
  return found == settings.end() ? "nothing" : shown(found->second);
}

/// A number without a fraction may come back from a file as an integer: compared as a double.
inline bool same_setting(const Section::Setting& a, const Section::Setting& b) {
  const auto* integer = std::get_if<int64_t>(&b);
  if (integer == nullptr || !std::holds_alternative<double>(a)) return a == b;
  return std::get<double>(a) == static_cast<double>(*integer);
}

/// Adds each field of `from` to the settings of `to`, its key after `prefix`.
template <Described T>
void put_fields(const T& from, std::string_view prefix, Section& to) {
  for_each_field<T>([&](const auto& each) {
    to.settings[fmt::format("{}{}", prefix, each.key)] = from.*each.member;
  });
}

/// The setting `key` of `section` as a `T`. Throws FormatError, which starts with `owner`, when
/// it is missing or of another type.
template <class T>
T take(std::string_view owner, const Section& section, const std::string& key) {
  const auto found = section.settings.find(key);
  if (found != section.settings.end()) {
    if (const auto* value = std::get_if<T>(&found->second)) return *value;
    if constexpr (std::is_same_v<T, double>) {
      const auto* integer = std::get_if<int64_t>(&found->second);
      if (integer != nullptr) return static_cast<double>(*integer);
    }
  }
  fail<FormatError>("{}: setting '{}': expected {}, got {}", owner, key,
                    std::is_same_v<T, double> ? "a number" : "an integer",
                    shown(section.settings, key));
}

/// Reads each field of `to` that `put_fields` wrote. Throws FormatError as `take` does.
template <Described T>
void take_fields(std::string_view owner, const Section& from, std::string_view prefix, T& to) {
  for_each_field<T>([&](const auto& each) {
    using Value = std::decay_t<decltype(to.*each.member)>;
    to.*each.member = take<Value>(owner, from, fmt::format("{}{}", prefix, each.key));
  });
}

}  // namespace qtape::settings
