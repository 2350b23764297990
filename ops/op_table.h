// Tables with a row for each op: what is known of each type, compiled once.
#pragma once

#include <array>
#include <type_traits>
#include <variant>

#include "qtape/ops/ops.h"

namespace qtape {

namespace detail {
template <class Make, class... X>
constexpr auto rows_of(const Make& make, std::type_identity<std::variant<X...>>) {
  return std::array{make.template operator()<X>()...};
}
}  // namespace detail

/// Returns the rows `make.operator()<X>()` of all types of ops, by Op::index().
template <class Make>
constexpr auto op_table(const Make& make) {
  return detail::rows_of(make, std::type_identity<OpAlternatives>());
}

/// Returns the op of type X that `op` holds, which must be of this type.
template <class X>
const X& as(const Op& op) {
  return *std::get_if<X>(&op);
}

}  // namespace qtape
