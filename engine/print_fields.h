// Formatting of attributes, derived from their field lists. Included only by .cpp files.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>

#include "qtape/core/fields.h"
#include "qtape/core/types.h"

namespace qtape {

/// Formats a value: `MatMul {transpose_b: true}`, with the attributes that differ from their
/// defaults.
template <class T>
std::string value_text(const T& value);

template <Described T>
std::string attributes_text(const T& value) {
  const T defaults{};
  std::string text;
  for_each_field<T>([&](const auto& each) {
    if (value.*each.member == defaults.*each.member) return;
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", each.key,
                        value_text(value.*each.member));
  });
  return text.empty() ? "" : " {" + text + "}";
}

template <class T>
std::string value_text(const T& value) {
  if constexpr (NamedEnum<T>) {
    return std::string(to_string_view(value));
  } else if constexpr (std::is_same_v<T, Shape>) {
    return to_string(value);
  } else if constexpr (std::is_same_v<T, Tensor>) {
    return to_string(value.type);
  } else if constexpr (is_variant<T>) {
    return std::visit([](const auto& each) { return value_text(each); }, value);
  } else if constexpr (Described<T>) {
    return std::string(T::name) + attributes_text(value);
  } else if constexpr (requires { value.has_value(); }) {
    return value ? value_text(*value) : "null";
  } else if constexpr (requires { value.begin(); } && !std::is_same_v<T, std::string>) {
    return fmt::format("[{}]", fmt::join(value, ", "));
  } else {
    return fmt::format("{}", value);
  }
}

}  // namespace qtape
