// Prefetching for loops that stream through memory: hardware alone reaches about two thirds of
// what a copy does.
#pragma once

#include <cstdint>

namespace qtape::kernels {

/// Bytes that reads and writes are fetched ahead of their use.
inline constexpr int64_t read_ahead = 16384;
inline constexpr int64_t write_ahead = 2048;

/// Fetches what lies `read_ahead` after the `bytes` at `p`, to be read. Beyond the end of the
/// data nothing happens.
inline void prefetch_reads(const void* p, int64_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(p) + read_ahead;
  for (int64_t i = 0; i < bytes; i += 64) {
    __builtin_prefetch(reinterpret_cast<const void*>(address + static_cast<uintptr_t>(i)), 0);
  }
}

/// Fetches what lies `write_ahead` after the `bytes` at `p`, to be written.
inline void prefetch_writes(const void* p, int64_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(p) + write_ahead;
  for (int64_t i = 0; i < bytes; i += 64) {
    __builtin_prefetch(reinterpret_cast<const void*>(address + static_cast<uintptr_t>(i)), 1);
  }
}

}  // namespace qtape::kernels
