// Settings as described fields with limits. One line per setting in `fields()` of a struct
// defines its option on command lines, the check of its range, and its key in checkpoints and
// reports.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "qtape/core/enum_names.h"
#include "qtape/core/fields.h"
#include "qtape/core/value_kinds.h"

namespace qtape::settings {

/// Valid numbers of a setting: `low` to `high`, and 0 if it has a special meaning.
template <class T>
struct Limits {
  T low = 0;
  T high = std::numeric_limits<T>::max();
  std::string_view zero = {};  ///< meaning of 0, such as "float"; empty: none

  constexpr bool bounded() const { return high != std::numeric_limits<T>::max(); }
  constexpr bool contain(T value) const {
    return (value >= low && value <= high) || (!zero.empty() && value == 0);
  }
};

/// Valid values of a setting of an enumeration: all except `refused`.
template <class E>
struct Choices {
  std::optional<E> refused = std::nullopt;

  /// Returns the spellings of the valid values.
  std::vector<std::string> names() const {
    std::vector<std::string> names(enum_names<E>.begin(), enum_names<E>.end());
    if (refused) std::erase(names, to_string_view(*refused));
    return names;
  }
};

namespace detail {

/// The element type of a setting of type T, which may be an optional or a list.
template <class T>
struct Single {
  using type = T;
};
template <class T>
requires(is_optional<T> || is_vector<T>) struct Single<T> {
  using type = typename T::value_type;
};

template <class T>
struct LimitsOf {
  using type = std::monostate;
};
template <>
struct LimitsOf<int> {
  using type = Limits<int64_t>;
};
template <>
struct LimitsOf<int64_t> {
  using type = Limits<int64_t>;
};
template <>
struct LimitsOf<uint64_t> {
  using type = Limits<uint64_t>;
};
template <>
struct LimitsOf<double> {
  using type = Limits<double>;
};
template <class E>
requires std::is_enum_v<E>
struct LimitsOf<E> {
  using type = Choices<E>;
};

}  // namespace detail

/// The type of the values of a setting of type Value, which may be an optional or a list.
template <class Value>
using Single = typename detail::Single<Value>::type;

/// The type of the limits of a setting of type Value: for numbers and enumerations, and
/// optionals or lists of these.
template <class Value>
using LimitsOf = typename detail::LimitsOf<Single<Value>>::type;

/// One setting. Its key is used in checkpoints and reports; its option has - in place of _.
template <class Owner, class Value>
struct Setting : Field<Owner, Value> {
  LimitsOf<Value> limits = {};
  int64_t most = std::numeric_limits<int64_t>::max();  ///< maximum number of elements of a list
  /// Name of a value in messages; empty: the key with spaces in place of _.
  std::string_view name = {};

  /// Returns a copy with a name, such as "layer width" for one of `layers`.
  constexpr Setting called(std::string_view other) const {
    Setting copy = *this;
    copy.name = other;
    return copy;
  }
  /// Returns a copy with at most `count` elements.
  constexpr Setting at_most(int64_t count) const requires is_vector<Value> {
    Setting copy = *this;
    copy.most = count;
    return copy;
  }
};

/// A number or an enumeration, or an optional or a list of these, with limits; `doc` is the
/// help text.
template <class Owner, class Value>
constexpr Setting<Owner, Value> setting(std::string_view key, Value Owner::*member,
                                        std::string_view doc, LimitsOf<Value> limits) {
  return {{key, member, doc}, limits};
}

/// A text, an enumeration, an optional one, or a flag.
template <class Owner, class Value>
requires(!std::is_arithmetic_v<Single<Value>> ||
         std::is_same_v<Single<Value>,
                        bool>) constexpr Setting<Owner, Value> setting(std::string_view key,
                                                                       Value Owner::*member,
                                                                       std::string_view doc) {
  return {{key, member, doc}};
}

/// Returns "weight bits" for weight_bits.
std::string spaced(std::string_view key);

/// Throws ArgumentError for a value outside its limits: "weight bits must be in 2..8, got 1",
/// "learning rate must be in [0, 10], got 11". T is int64_t, uint64_t or double.
template <class T>
void require_in(std::string_view name, const Limits<T>& limits, std::type_identity_t<T> value);

/// Throws ArgumentError: "weight codes must be Narrow or Full, got Unsigned".
[[noreturn]] void refuse_choice(std::string_view name, const std::vector<std::string>& valid,
                                std::string_view got);

/// Throws ArgumentError, as `refuse_choice`, for the refused value.
template <class E>
void require_in(std::string_view name, const Choices<E>& choices, E value) {
  if (value == choices.refused) refuse_choice(name, choices.names(), to_string_view(value));
}

/// Throws ArgumentError for a list of more than `most` elements.
void require_length(std::string_view key, size_t length, int64_t most);

/// Throws ArgumentError, which names the setting, for a value outside the limits of its
/// setting.
template <class Owner, class Value>
void require_limits(const Setting<Owner, Value>& setting, const Value& value) {
  const auto require_one = [&](const auto& one) {
    if constexpr (!std::is_same_v<LimitsOf<Value>, std::monostate>) {
      require_in(setting.name.empty() ? spaced(setting.key) : std::string(setting.name),
                 setting.limits, one);
    }
  };
  if constexpr (is_vector<Value>) {
    require_length(setting.key, value.size(), setting.most);
    for (const auto& each : value) require_one(each);
  } else if constexpr (is_optional<Value>) {
    if (value) require_one(*value);
  } else {
    require_one(value);
  }
}

/// Throws ArgumentError for the first setting outside its limits.
template <Described T>
void require_limits(const T& settings) {
  for_each_field<T>([&](const auto& each) { require_limits(each, settings.*each.member); });
}

}  // namespace qtape::settings
