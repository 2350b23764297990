// Formatting of attributes, derived from their field lists. Included only by .cpp files.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <tuple>

#include "qtape/core/fields.h"
#include "qtape/core/types.h"

namespace qtape {

/// Formats a value: `MatMul {transpose_b: true}`, with the attributes that differ from their
/// defaults.
template <class T>
std::string value_text(const T& value);

namespace detail {

/// Formatting of values of one type, which is not known where it is called.
struct TextType {
  bool (*equal)(const void* a, const void* b);
  std::string (*text)(const void* value);
};
template <class T>
inline constexpr TextType text_type = {
    [](const void* a, const void* b) {
      return *static_cast<const T*>(a) == *static_cast<const T*>(b);
    },
    [](const void* value) { return value_text(*static_cast<const T*>(value)); }};

/// A member of a described value.
struct TextMember {
  std::string_view key;
  const void* value;
  const void* standard;  ///< its default
  const TextType* type;
};
/// `{a: 1, b: 2}` of the members that differ from their defaults; empty if none does.
std::string attributes_text(std::span<const TextMember> members);

template <Described T>
std::string attributes_text(const T& value) {
  const T defaults{};
  return std::apply(
      [&](const auto&... each) {
        return attributes_text(std::array<TextMember, sizeof...(each)>{
            TextMember{each.key, &(value.*each.member), &(defaults.*each.member),
                       &text_type<std::decay_t<decltype(value.*each.member)>>}...});
      },
      T::fields());
}

}  // namespace detail

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
    return std::string(T::name) + detail::attributes_text(value);
  } else if constexpr (requires { value.has_value(); }) {
    return value ? value_text(*value) : "null";
  } else if constexpr (requires { value.begin(); } && !std::is_same_v<T, std::string>) {
    return fmt::format("[{}]", fmt::join(value, ", "));
  } else {
    return fmt::format("{}", value);
  }
}

}  // namespace qtape
