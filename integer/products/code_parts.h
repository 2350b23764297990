// Parts of codes that products of 8 bits read.
#pragma once

#include <cstdint>

#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"

namespace qtape {

/// An 8-bit part of codes: the whole code, or the upper or lower byte of 16 bits.
enum class CodePart : uint8_t { Whole, Upper, Lower };

template <class X, class To>
void extract_codes(CodePart part, const X* x, To* to, int64_t n) {
  QTAPE_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const int32_t v = x[i];
    const int32_t half = part == CodePart::Upper ? v >> 8 : v & 255;
    to[i] = static_cast<To>(part == CodePart::Whole ? v : half);
  }
}

template <class X, class To>
using ExtractLoop = void (*)(const X*, To*, int64_t);

/// Loop that writes a part of each code.
template <class X, class To>
ExtractLoop<X, To> extract_loop(CodePart part) {
  switch (part) {
    case CodePart::Upper:
      return kernels::simd::best<const X*, To*, int64_t>(
          [](const X* x, To* to, int64_t n) { extract_codes(CodePart::Upper, x, to, n); });
    case CodePart::Lower:
      return kernels::simd::best<const X*, To*, int64_t>(
          [](const X* x, To* to, int64_t n) { extract_codes(CodePart::Lower, x, to, n); });
    case CodePart::Whole:
      break;
  }
  return kernels::simd::best<const X*, To*, int64_t>(
      [](const X* x, To* to, int64_t n) { extract_codes(CodePart::Whole, x, to, n); });
}

}  // namespace qtape
