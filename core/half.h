// Conversions between f16, bf16 and f32, rounding to nearest even, in integer arithmetic that
// vectorises.
#pragma once

#include <bit>
#include <cstdint>

#include "qtape/core/types.h"

namespace qtape {

inline float to_float(BHalf h) { return std::bit_cast<float>(uint32_t{h.bits} << 16); }

inline BHalf to_bhalf(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  const uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  return {static_cast<uint16_t>(nan ? (bits >> 16) | 0x40u : rounded >> 16)};
}

inline float to_float(Half h) {
  const uint32_t sign = uint32_t{h.bits & 0x8000u} << 16;
  const uint32_t magnitude = uint32_t{h.bits & 0x7fffu} << 13;
  // Exponents 0 (denormal) and 31 (infinity, NaN) need a bias of 224 instead of 112.
  const bool special = magnitude >= 0x0f800000u;
  const uint32_t wide = magnitude + (special ? 224u << 23 : 112u << 23);
  // The value of a denormal is its mantissa / 2^24, exact in f32.
  const float denormal = static_cast<float>(static_cast<int32_t>(magnitude >> 13)) * 0x1p-24f;
  const uint32_t bits = magnitude < 0x00800000u ? std::bit_cast<uint32_t>(denormal) : wide;
  return std::bit_cast<float>(bits | sign);
}

inline Half to_half(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  const float absolute = std::bit_cast<float>(magnitude);
  // Adding 0.5 leaves the mantissa of the f16 denormal, rounded half to even, in the low bits.
  const uint32_t denormal = std::bit_cast<uint32_t>(absolute + 0.5f) - 0x3f000000u;
  const uint32_t normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  uint32_t result = magnitude < 0x38800000u ? denormal : normal;
  if (magnitude >= 0x477ff000u) result = 0x7c00u;
  if (magnitude > 0x7f800000u) result = 0x7e00u;
  return {static_cast<uint16_t>(result | sign)};
}

/// Conversions between a storage type and the type in which arithmetic on it is computed.
template <class T>
struct Storage {
  using Compute = T;
  static T load(T x) { return x; }
  static T store(T x) { return x; }
};
template <>
struct Storage<Half> {
  using Compute = float;
  static float load(Half x) { return to_float(x); }
  static Half store(float x) { return to_half(x); }
};
template <>
struct Storage<BHalf> {
  using Compute = float;
  static float load(BHalf x) { return to_float(x); }
  static BHalf store(float x) { return to_bhalf(x); }
};

/// Calls `body.template operator()<T>()` with the storage type of a float dtype: float, double,
/// Half or BHalf.
template <class Body>
auto dispatch_float(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::F64:
      return body.template operator()<double>();
    case DType::F16:
      return body.template operator()<Half>();
    case DType::BF16:
      return body.template operator()<BHalf>();
    default:
      return body.template operator()<float>();
  }
}

}  // namespace qtape
