// Traits of std::optional and std::vector for code that iterates over described fields.
#pragma once

#include <optional>
#include <vector>

namespace qtape {

/// True if T is a std::optional.
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

/// True if T is a std::vector.
template <class T>
inline constexpr bool is_vector = false;
template <class T>
inline constexpr bool is_vector<std::vector<T>> = true;

}  // namespace qtape
