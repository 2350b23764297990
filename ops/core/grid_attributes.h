// The attributes of quantization grids and granularity: their names, documentation, checks and
// conversion to Grid and Granularity, defined here only. Each op has the attributes that it
// needs as its own members, because GCC warns about designated initializers of an aggregate
// with a base class.
#pragma once

#include <cmath>
#include <concepts>
#include <limits>
#include <optional>
#include <tuple>
#include <type_traits>

#include "qtape/core/error.h"
#include "qtape/core/fields.h"
#include "qtape/core/granularity.h"
#include "qtape/core/grid.h"

namespace qtape {

// Defaults of attributes that have no default in Grid.
inline constexpr int default_bits = 8;                         ///< default of `bits`
inline constexpr CodeRange default_range = CodeRange::Narrow;  ///< default of `range`
inline constexpr MaskRule default_mask = MaskRule::Code;       ///< default of `mask`

/// An op with a granularity.
template <class X>
concept HasGranularity = requires(const X& op) {
  { op.axis } -> std::same_as<const std::optional<int>&>;
  { op.group_size } -> std::same_as<const std::optional<int64_t>&>;
};

/// An op with a quantization grid. It may also have scheme, denominator, zero_point, floor and
/// power_of_two.
template <class X>
concept HasGrid = HasGranularity<X> && requires(const X& op) {
  { op.bits } -> std::same_as<const int&>;
  { op.range } -> std::same_as<const CodeRange&>;
  { op.rounding } -> std::same_as<const Rounding&>;
  { op.division } -> std::same_as<const Division&>;
};

namespace detail {

/// A tuple with the Field of the member returned by `find`; empty if X has no such member.
template <class X, class Find>
constexpr auto field_if_any(std::string_view key, Find find, std::string_view doc) {
  if constexpr (std::is_invocable_v<Find, X*>) {
    return std::tuple{field(key, find(static_cast<X*>(nullptr)), doc)};
  } else {
    return std::tuple<>{};
  }
}

}  // namespace detail

/// Fields of the grid and granularity attributes of X, in the order of files.
template <class X>
constexpr auto grid_fields() {
  using detail::field_if_any;
  return std::tuple_cat(
      field_if_any<X>(
          "bits", []<class T>(T*) -> decltype(&T::bits) { return &T::bits; },
          "2..16; 1 only with range Unsigned"),
      field_if_any<X>(
          "axis", []<class T>(T*) -> decltype(&T::axis) { return &T::axis; },
          "axis with a scale per index; null: one scale per tensor"),
      field_if_any<X>(
          "group_size", []<class T>(T*) -> decltype(&T::group_size) { return &T::group_size; },
          "consecutive indices of the axis that share a scale, separately for each position "
          "along the other axes; divides the axis; null: a scale per index"),
      field_if_any<X>(
          "range", []<class T>(T*) -> decltype(&T::range) { return &T::range; },
          "Narrow [-q, q], Full [-q-1, q], Unsigned [0, 2^bits - 1]"),
      field_if_any<X>(
          "scheme", []<class T>(T*) -> decltype(&T::scheme) { return &T::scheme; },
          "Symmetric, or Affine: with a zero point"),
      field_if_any<X>(
          "rounding", []<class T>(T*) -> decltype(&T::rounding) { return &T::rounding; },
          "HalfEven, HalfAway or HalfUp"),
      field_if_any<X>(
          "division", []<class T>(T*) -> decltype(&T::division) { return &T::division; },
          "Exact x / s or Reciprocal x (1 / s)"),
      field_if_any<X>(
          "denominator",
          []<class T>(T*) -> decltype(&T::denominator) { return &T::denominator; },
          "of a symmetric scale: QMax or HalfSpan (q_max - q_min) / 2"),
      field_if_any<X>(
          "zero_point", []<class T>(T*) -> decltype(&T::zero_point) { return &T::zero_point; },
          "AfterRounding or BeforeRounding round(x / s + zp)"),
      field_if_any<X>(
          "floor", []<class T>(T*) -> decltype(&T::floor) { return &T::floor; },
          "smallest scale, a normal f32 above 0"),
      field_if_any<X>(
          "power_of_two",
          []<class T>(T*) -> decltype(&T::power_of_two) { return &T::power_of_two; },
          "rounds scales up to a power of two"));
}

/// Field of the attribute `mask`, the rule by which elements count as inside the range.
template <class X>
constexpr auto mask_field() {
  return field("mask", &X::mask,
               "Code or Value: rule by which elements count as inside the range");
}

/// Granularity of the op's scales.
template <HasGranularity X>
Granularity granularity_of(const X& op) {
  return {op.axis, op.group_size};
}

/// Grid described by the op's attributes.
template <HasGrid X>
Grid grid_of(const X& op) {
  Grid grid{.limits = code_limits(op.bits, op.range),
            .rounding = op.rounding,
            .division = op.division};
  if constexpr (requires { op.scheme; }) grid.scheme = op.scheme;
  if constexpr (requires { op.denominator; }) grid.denominator = op.denominator;
  if constexpr (requires { op.zero_point; }) grid.zero_point = op.zero_point;
  if constexpr (requires { op.floor; }) grid.floor = op.floor;
  if constexpr (requires { op.power_of_two; }) grid.power_of_two = op.power_of_two;
  return grid;
}

/// Throws GraphError unless `op.bits` is valid for `op.range` and the floor, if any, is a
/// normal f32 above 0.
template <HasGrid X>
void check_grid(const X& op) {
  const int fewest = op.range == CodeRange::Unsigned ? 1 : 2;
  check(op.bits >= fewest && op.bits <= 16, "bits must be in {}..16 for range {}, got {}",
        fewest, to_string_view(op.range), op.bits);
  if constexpr (requires { op.floor; }) {
    using Limits = std::numeric_limits<float>;
    check(std::isfinite(op.floor) && op.floor >= double{Limits::min()} &&
              op.floor <= double{Limits::max()},
          "floor must be a normal f32 above 0, got {}", op.floor);
  }
}

}  // namespace qtape
