// The dtypes of integer codes.
#pragma once

#include "qtape/core/grid.h"
#include "qtape/core/types.h"

namespace qtape {

/// Dtype that stores codes of `bits` bits (1..16) in `range`.
constexpr DType code_dtype(int bits, CodeRange range) {
  const bool is_unsigned = range == CodeRange::Unsigned;
  if (bits <= 8) return is_unsigned ? DType::U8 : DType::S8;
  return is_unsigned ? DType::U16 : DType::S16;
}

/// Narrowest dtype that stores codes within `limits`: u8, s8, u16 or s16.
constexpr DType code_dtype(CodeLimits limits) {
  if (limits.q_min >= 0) return limits.q_max <= 255 ? DType::U8 : DType::U16;
  return limits.q_min >= -128 && limits.q_max <= 127 ? DType::S8 : DType::S16;
}

/// True for s8, u8, s16 and u16.
constexpr bool is_code_dtype(DType dtype) {
  return dtype == DType::S8 || dtype == DType::U8 || dtype == DType::S16 || dtype == DType::U16;
}

/// Calls `body.template operator()<T>()` with the C++ type of `dtype` (s8, u8, s16 or u16).
template <class Body>
auto dispatch_codes(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::U8:
      return body.template operator()<uint8_t>();
    case DType::S16:
      return body.template operator()<int16_t>();
    case DType::U16:
      return body.template operator()<uint16_t>();
    default:
      return body.template operator()<int8_t>();
  }
}

}  // namespace qtape
