// Settings as data: range checks, and conversion of field lists to and from the settings of a
// Section.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "qtape/core/enum_names.h"
#include "qtape/core/error.h"
#include "qtape/core/fields.h"
#include "qtape/core/printable.h"
#include "qtape/core/section.h"
#include "qtape/core/value_kinds.h"

namespace qtape::settings {

/// Returns the section `name` of a checkpoint. Throws FormatError if there is none.
inline const Section& section_of(const std::map<std::string, Section>& sections,
                                 std::string_view name) {
  const auto found = sections.find(std::string(name));
  require<FormatError>(found != sections.end(),
                       "/sections/{}: missing; the file is not a checkpoint", name);
  return found->second;
}

/// Throws ArgumentError unless `value` is finite and >= 0. The message starts with `owner` and
/// `name`.
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

/// Formats a setting for messages; text is put in double quotes.
inline std::string shown(const Section::Setting& setting) {
  const auto* text = std::get_if<std::string>(&setting);
  if (text != nullptr) return fmt::format("\"{}\"", printable(*text));
  return std::visit([](const auto& value) { return fmt::format("{}", value); }, setting);
}

/// Formats the setting `key` for messages; "nothing" if it is missing.
inline std::string shown(const std::map<std::string, Section::Setting>& settings,
                         const std::string& key) {
  const auto found = settings.find(key);
  return found == settings.end() ? "nothing" : shown(found->second);
}

/// True if both settings are equal. A double equals an integer of the same value, because files
/// store numbers without a fraction as integers.
inline bool same_setting(const Section::Setting& a, const Section::Setting& b) {
  const auto* integer = std::get_if<int64_t>(&b);
  if (integer == nullptr || !std::holds_alternative<double>(a)) return a == b;
  return std::get<double>(a) == static_cast<double>(*integer);
}

/// Adds `value` to the settings of `to` under `key`. Enumerations are stored by their spelling.
/// An empty optional is not stored. Lists are stored by their length, with the elements under
/// "KEY 1", "KEY 2", ...
template <class T>
void put(const T& value, const std::string& key, Section& to) {
  if constexpr (NamedEnum<T>) {
    to.settings[key] = std::string(to_string_view(value));
  } else if constexpr (is_optional<T>) {
    if (value) put(*value, key, to);
  } else if constexpr (is_vector<T>) {
    to.settings[key] = static_cast<int64_t>(value.size());
    for (size_t i = 0; i < value.size(); ++i) {
      put(value[i], fmt::format("{} {}", key, i + 1), to);
    }
  } else {
    to.settings[key] = value;
  }
}

/// Adds each field of `from` to the settings of `to` under `prefix` followed by the field's
/// key.
template <Described T>
void put_fields(const T& from, std::string_view prefix, Section& to) {
  for_each_field<T>([&](const auto& each) {
    put(from.*each.member, fmt::format("{}{}", prefix, each.key), to);
  });
}

/// Name of the setting `key` in messages. `owner` is the owner of the section, such as
/// "Optimizer", or the JSON pointer to the section.
inline std::string setting_name(std::string_view owner, std::string_view key) {
  if (owner.starts_with('/')) return fmt::format("{}/settings/{}", owner, key);
  return fmt::format("{}: setting '{}'", owner, key);
}

/// Description of the expected value of a setting in messages.
template <class T>
constexpr std::string_view expected_value() {
  if (std::is_same_v<T, bool>) return "true or false";
  if (std::is_same_v<T, std::string>) return "a string";
  return std::is_same_v<T, double> ? "a number" : "an integer";
}

/// Reads the setting `key` of `section` as written by `put`. Throws FormatError, which starts
/// with `setting_name`, if the setting is missing, has another type or is not a spelling of the
/// enumeration.
template <class T>
T take(std::string_view owner, const Section& section, const std::string& key) {
  if constexpr (NamedEnum<T>) {
    const auto text = take<std::string>(owner, section, key);
    const auto value = from_string<T>(text);
    require<FormatError>(value.has_value(), "{}: unknown value \"{}\"; expected one of {}",
                         setting_name(owner, key), printable(text), spellings<T>());
    return *value;
  } else if constexpr (is_optional<T>) {
    if (!section.settings.contains(key)) return std::nullopt;
    return take<typename T::value_type>(owner, section, key);
  } else if constexpr (is_vector<T>) {
    const auto length = take<int64_t>(owner, section, key);
    require<FormatError>(length >= 0, "{}: expected a length, got {}", setting_name(owner, key),
                         length);
    T list;
    for (int64_t i = 1; i <= length; ++i) {
      list.push_back(
          take<typename T::value_type>(owner, section, fmt::format("{} {}", key, i)));
    }
    return list;
  } else if constexpr (std::is_same_v<T, int>) {
    const auto value = take<int64_t>(owner, section, key);
    require<FormatError>(std::in_range<int>(value),
                         "{}: expected an integer of 32 bits, got {}", setting_name(owner, key),
                         value);
    return static_cast<int>(value);
  } else {
    const auto found = section.settings.find(key);
    if (found != section.settings.end()) {
      if (const auto* value = std::get_if<T>(&found->second)) return *value;
      if constexpr (std::is_same_v<T, double>) {
        const auto* integer = std::get_if<int64_t>(&found->second);
        if (integer != nullptr) return static_cast<double>(*integer);
      }
    }
    fail<FormatError>("{}: expected {}, got {}", setting_name(owner, key), expected_value<T>(),
                      shown(section.settings, key));
  }
}

/// Throws FormatError, which starts with `setting_name`, if `section` has a setting that
/// `known` does not have.
inline void refuse_unknown(std::string_view owner, const Section& section,
                           const Section& known) {
  for (const auto& [key, value] : section.settings) {
    require<FormatError>(known.settings.contains(key), "{}: expected nothing, got {}",
                         setting_name(owner, printable(key)), shown(value));
  }
}

/// Reads each field of `to` as written by `put_fields`. Throws FormatError as `take` does.
template <Described T>
void take_fields(std::string_view owner, const Section& from, std::string_view prefix, T& to) {
  for_each_field<T>([&](const auto& each) {
    using Value = std::decay_t<decltype(to.*each.member)>;
    to.*each.member = take<Value>(owner, from, fmt::format("{}{}", prefix, each.key));
  });
}

}  // namespace qtape::settings
