// Text spellings of enumerations: one table per enum, indexed by value, for files and messages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "qtape/core/error.h"

namespace qtape {

/// Specialise with a `std::array<std::string_view, N>`: one spelling per value, starting at 0.
template <class E>
inline constexpr auto enum_names = nullptr;

/// An enumeration whose values have spellings.
template <class E>
concept NamedEnum = std::is_enum_v<E> && !std::is_null_pointer_v<decltype(enum_names<E>)>;

/// Returns the spelling of `value`; `(invalid)` for a value without one.
template <class E>
requires std::is_enum_v<E> std::string_view to_string_view(E value) {
  static_assert(!std::is_null_pointer_v<std::remove_const_t<decltype(enum_names<E>)>>,
                "enum_names has no specialisation for this enum");
  const auto index = static_cast<size_t>(value);
  return index < enum_names<E>.size() ? enum_names<E>[index] : "(invalid)";
}

/// Throws ArgumentError, which names `name`, for a value without a spelling.
template <NamedEnum E>
void require_valid(std::string_view name, E value) {
  const auto number = static_cast<int64_t>(value);
  const auto count = static_cast<int64_t>(enum_names<E>.size());
  require<ArgumentError>(number >= 0 && number < count, "{}: expected a value in 0..{}, got {}",
                         name, count - 1, number);
}

/// Returns the value spelled `text`, or nullopt.
template <class E>
std::optional<E> from_string(std::string_view text) {
  for (size_t i = 0; i < enum_names<E>.size(); ++i) {
    if (enum_names<E>[i] == text) return static_cast<E>(i);
  }
  return std::nullopt;
}

/// Returns all spellings as "A, B, C", for messages that list the accepted values.
template <class E>
std::string spellings() {
  std::string text;
  for (std::string_view name : enum_names<E>) {
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text;
}

}  // namespace qtape
