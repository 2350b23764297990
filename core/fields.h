// Attributes as data: each op and option struct lists its members once; JSON, printing and
// documentation iterate over that list.
#pragma once

#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <variant>

namespace qtape {

/// One attribute: its JSON key, the member that stores it and one line of documentation.
template <class Owner, class Value>
struct Field {
  std::string_view key;  ///< JSON key
  Value Owner::*member;
  std::string_view doc;   ///< meaning and range
  bool optional = false;  ///< files omit it while it has its default
};

/// Creates the Field of one member.
template <class Owner, class Value>
constexpr Field<Owner, Value> field(std::string_view key, Value Owner::*member,
                                    std::string_view doc) {
  return {key, member, doc};
}

/// Creates the Field of a member that files omit while it has its default.
template <class Owner, class Value>
constexpr Field<Owner, Value> optional_field(std::string_view key, Value Owner::*member,
                                             std::string_view doc) {
  return {key, member, doc, true};
}

/// A struct with a static `fields()` that returns a tuple of Field.
template <class T>
concept Described = requires {
  T::fields();
};

/// Calls `visit(field)` for each attribute of `T` in order.
template <Described T, class Visit>
constexpr void for_each_field(Visit&& visit) {
  std::apply([&](const auto&... each) { (visit(each), ...); }, T::fields());
}

/// A std::variant, or a class derived from one: a closed list of alternatives.
template <class T>
inline constexpr bool is_variant = requires(const T* value) {
  []<class... Ts>(const std::variant<Ts...>*) {}(value);
};

/// Calls `visit.template operator()<Alternative>()` for each alternative of a variant type.
template <class Variant, class Visit>
constexpr void for_each_alternative(Visit&& visit) {
  []<class... Ts>(const std::variant<Ts...>*, Visit& each) {
    (each.template operator()<Ts>(), ...);
  }(static_cast<const Variant*>(nullptr), visit);
}

/// Number of alternatives of a variant type.
template <class Variant>
constexpr size_t alternatives() {
  size_t count = 0;
  for_each_alternative<Variant>([&]<class>() { ++count; });
  return count;
}

/// True if T is an alternative of the std::variant `Variant`.
template <class T, class Variant>
inline constexpr bool is_alternative = false;
template <class T, class... Ts>
inline constexpr bool is_alternative<T, std::variant<Ts...>> = (std::is_same_v<T, Ts> || ...);

}  // namespace qtape
