// Instruction sets for which kernels are compiled.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "qtape/core/enum_names.h"

namespace qtape {

enum class Isa : uint8_t { Baseline, Avx2, Avx512 };

template <>
inline constexpr auto enum_names<Isa> =
    std::array<std::string_view, 3>{"baseline", "avx2", "avx512"};

/// Best instruction set that this processor supports, capped by the environment variable
/// `QTAPE_ISA` (`baseline`, `avx2`, `avx512`). Throws ArgumentError for any other value of the
/// variable.
Isa isa();

}  // namespace qtape
