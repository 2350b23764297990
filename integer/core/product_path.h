// Choice of the fastest exact way to multiply codes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "qtape/integer/core/certificate.h"
#include "qtape/kernels/onednn/int8_exactness.h"

namespace qtape {

using namespace kernels;

/// Implementations of products of codes.
enum class ProductPath : uint8_t {
  Int8,  ///< oneDNN in int8
  F32,   ///< oneDNN in f32 on the codes
  Plain  ///< loops in integers
};
template <>
inline constexpr auto enum_names<ProductPath> =
    std::array<std::string_view, 3>{"int8", "f32", "plain"};

/// Returns the fastest path that is exact for codes `x`, where `int8` states how exact int8
/// products are. Int8 if they are exact given the certificate and the sums fit s32, else F32 if
/// the certificate proves 24 bits, else Plain.
ProductPath exact_path(const Certificate& certificate, const IntegerValue& x,
                       Int8Exactness int8 = int8_exactness());
/// Explains the choice of exact_path: `int8, added in 32 bits by avx512_core_vnni`.
std::string explain_path(const Certificate& certificate, const IntegerValue& x,
                         Int8Exactness int8 = int8_exactness());

}  // namespace qtape
