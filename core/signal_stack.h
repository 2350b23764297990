// The separate stack of signal handlers.
#pragma once

#include <cstddef>

namespace qtape {

/// Size of a stack for signal handlers, larger than any signal frame with vector registers.
/// Handlers need one: oneDNN's AVX-512 products use the stack pointer as a general register, so
/// the frame of a handler would overwrite their data.
inline constexpr size_t signal_stack_bytes = size_t{64} << 10;

}  // namespace qtape
