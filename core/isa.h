// Instruction sets for which kernels are compiled.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "qtape/core/enum_names.h"

namespace qtape {

/// Instruction sets of this kind of processor; each includes those before it.
#if defined(__aarch64__)
enum class Isa : uint8_t { Baseline, Neon, NeonDot };

template <>
inline constexpr auto enum_names<Isa> =
    std::array<std::string_view, 3>{"baseline", "neon", "neon_dot"};
#else
enum class Isa : uint8_t { Baseline, Avx2, Avx512 };

template <>
inline constexpr auto enum_names<Isa> =
    std::array<std::string_view, 3>{"baseline", "avx2", "avx512"};
#endif

/// Best instruction set that this processor supports, capped by the environment variable
/// `QTAPE_ISA`, one of `enum_names<Isa>`. Throws ArgumentError for any other value of the
/// variable.
Isa isa();

}  // namespace qtape
