// How accumulators become codes of another grid: the arithmetic of each kind of target.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <utility>

#include "qtape/core/enum_names.h"

namespace qtape {

/// How M acc is rounded to an integer, M = s_x s_w / s_y being the ratio of the grids. Each has
/// its struct in namespace `requantization`.
enum class Requantization : uint8_t { FloatMultiply, SingleRounding, DoubleRounding, OnnxQdq };

/// One struct for each requantization. To add one: its enumerator, its struct in the list of
/// All, and its arithmetic, Scalar in kernels/quantize/requantize.cpp and Step in
/// kernels/quantize/requantize_kernels.cpp, without which those do not compile.
namespace requantization {

/// M acc in f32, ties to even: oneDNN and XNNPACK.
struct FloatMultiply {
  static constexpr Requantization value = Requantization::FloatMultiply;
  static constexpr std::string_view name = "FloatMultiply";
  static constexpr std::string_view doc = "half_even(float(acc) M): oneDNN, XNNPACK";
  static constexpr bool ties_to_even = true;
};

/// This and DoubleRounding differ for accumulators that targets take in s32; see Accumulator
/// for the others.
struct SingleRounding {
  static constexpr Requantization value = Requantization::SingleRounding;
  static constexpr std::string_view name = "SingleRounding";
  static constexpr std::string_view doc =
      "(acc m + 2^(30 - sh)) >> (31 - sh) with M = m 2^(sh - 31): CMSIS-NN, one rounding";
  static constexpr bool ties_to_even = false;
};

/// A rounded high product, then a rounded shift: TFLite Micro.
struct DoubleRounding {
  static constexpr Requantization value = Requantization::DoubleRounding;
  static constexpr std::string_view name = "DoubleRounding";
  static constexpr std::string_view doc =
      "doubling high product, then a rounding shift: TFLite Micro";
  static constexpr bool ties_to_even = false;
};

/// A value in f32 divided by the scale, ties to even: QuantizeLinear after DequantizeLinear.
struct OnnxQdq {
  static constexpr Requantization value = Requantization::OnnxQdq;
  static constexpr std::string_view name = "OnnxQdq";
  static constexpr std::string_view doc =
      "half_even(float(acc) (s_x s_w) / s_y): QuantizeLinear after DequantizeLinear";
  static constexpr bool ties_to_even = true;
};

/// The structs, in the order of values.
using All = std::tuple<FloatMultiply, SingleRounding, DoubleRounding, OnnxQdq>;

/// Calls `visit.template operator()<Struct>()` for each requantization, in the order of values.
template <class Visit>
constexpr void for_each(Visit&& visit) {
  [&]<class... Each>(const std::tuple<Each...>*) {
    (visit.template operator()<Each>(), ...);
  }(static_cast<const All*>(nullptr));
}

/// How many requantizations there are.
inline constexpr size_t count = std::tuple_size_v<All>;

/// The requantizations, in the order of values.
inline constexpr auto values = [] {
  std::array<Requantization, count> all{};
  size_t i = 0;
  for_each([&]<class Each>() { all[i++] = Each::value; });
  return all;
}();

/// What `body.template operator()<Struct>()` gives for the struct of `requantization`.
template <class Body>
constexpr auto dispatch(Requantization requantization, const Body& body) {
  decltype(body.template operator()<FloatMultiply>()) result{};
  for_each([&]<class Each>() {
    if (Each::value == requantization) result = body.template operator()<Each>();
  });
  return result;
}

}  // namespace requantization

template <>
inline constexpr auto enum_names<Requantization> = [] {
  std::array<std::string_view, requantization::count> names{};
  requantization::for_each(
      [&]<class Each>() { names[static_cast<size_t>(Each::value)] = Each::name; });
  return names;
}();

/// The type in which TFLite and CMSIS-NN accumulate, which follows from the type of the
/// activations and not from how large a sum is.
enum class Accumulator : uint8_t {
  S32,  ///< products of codes stored in 8 bits, and codes themselves
  S64   ///< products of codes stored in 16 bits, with biases of 64 bits. SingleRounding and
        ///< DoubleRounding are both (acc r + 2^(14 - sh)) >> (15 - sh), r being the mantissa in
        ///< 16 bits
};

}  // namespace qtape
