// Requantization of accumulators to codes of another grid, in the arithmetic of each target.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <tuple>

#include "qtape/core/enum_names.h"

namespace qtape {

/// Rounding of M acc to an integer, where M = s_x s_w / s_y is the ratio of the grids. Each
/// value has a struct in namespace `requantization`.
enum class Requantization : uint8_t { FloatMultiply, SingleRounding, DoubleRounding, OnnxQdq };

/// One struct for each requantization. A new one needs its enumerator, its struct in the list
/// `All`, and its arithmetic: Scalar in kernels/quantize/requantize.cpp and Step in
/// kernels/quantize/requantize_kernels.cpp, which do not compile without it.
namespace requantization {

/// M acc in f32, ties to even: oneDNN, XNNPACK.
struct FloatMultiply {
  static constexpr Requantization value = Requantization::FloatMultiply;
  static constexpr std::string_view name = "FloatMultiply";
  static constexpr std::string_view doc = "half_even(float(acc) M): oneDNN, XNNPACK";
  static constexpr bool ties_to_even = true;
};

/// One rounding of the fixed-point product: TFLite and CMSIS-NN built with single rounding.
/// Differs from DoubleRounding only for S32 accumulators; see Accumulator for S64.
struct SingleRounding {
  static constexpr Requantization value = Requantization::SingleRounding;
  static constexpr std::string_view name = "SingleRounding";
  static constexpr std::string_view doc =
      "(acc m + 2^(30 - sh)) >> (31 - sh) with M = m 2^(sh - 31): TFLite and CMSIS-NN built with "
      "single rounding";
  static constexpr bool ties_to_even = false;
};

/// Rounded high product followed by a rounding shift: TFLite Micro, and CMSIS-NN by default.
struct DoubleRounding {
  static constexpr Requantization value = Requantization::DoubleRounding;
  static constexpr std::string_view name = "DoubleRounding";
  static constexpr std::string_view doc =
      "doubling high product, then a rounding shift: TFLite Micro, CMSIS-NN";
  static constexpr bool ties_to_even = false;
};

/// f32 value divided by the scale, ties to even: QuantizeLinear after DequantizeLinear.
struct OnnxQdq {
  static constexpr Requantization value = Requantization::OnnxQdq;
  static constexpr std::string_view name = "OnnxQdq";
  static constexpr std::string_view doc =
      "half_even(float(acc) (s_x s_w) / s_y): QuantizeLinear after DequantizeLinear";
  static constexpr bool ties_to_even = true;
};

/// The structs in the order of the enumerators.
using All = std::tuple<FloatMultiply, SingleRounding, DoubleRounding, OnnxQdq>;

/// Calls `visit.template operator()<Struct>()` for each requantization in the order of the
/// enumerators.
template <class Visit>
constexpr void for_each(Visit&& visit) {
  [&]<class... Each>(const std::tuple<Each...>*) {
    (visit.template operator()<Each>(), ...);
  }(static_cast<const All*>(nullptr));
}

/// Number of requantizations.
inline constexpr size_t count = std::tuple_size_v<All>;

/// The requantizations in the order of the enumerators.
inline constexpr auto values = [] {
  std::array<Requantization, count> all{};
  size_t i = 0;
  for_each([&]<class Each>() { all[i++] = Each::value; });
  return all;
}();

/// Returns the result of `body.template operator()<Struct>()` for the struct of
/// `requantization`.
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

/// Type in which TFLite and CMSIS-NN accumulate. It follows from the type of the activations,
/// not from the magnitude of the sum.
enum class Accumulator : uint8_t {
  S32,  ///< products of codes stored in 8 bits, and the codes themselves
  S64   ///< products of codes stored in 16 bits, with 64-bit biases. SingleRounding and
        ///< DoubleRounding both compute (acc r + 2^(14 - sh)) >> (15 - sh), where r is the
        ///< mantissa in 16 bits
};

}  // namespace qtape
