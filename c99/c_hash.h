// The hash of self-tests of C programs, as c99/kernels/hash.c computes it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace qtape {

/// The hash of no element.
inline constexpr uint32_t c_hash_start = 2166136261u;

/// `hash` with one more word. For either operand it is a bijection of the other: a change of
/// one word changes the hash.
constexpr uint32_t c_hash(uint32_t hash, uint32_t word) {
  hash = (hash ^ word) * 16777619u;
  return hash ^ hash >> 15;
}

/// `hash` with elements of `size` bytes (1, 2, 4 or 8) more: a word each, 8 bytes as two, the
/// low one first.
inline uint32_t c_hash(uint32_t hash, std::span<const std::byte> elements, int64_t size) {
  for (size_t at = 0; at < elements.size(); at += static_cast<size_t>(size)) {
    uint64_t word = 0;
    // In the order of this machine's bytes, which is little-endian.
    static_assert(std::endian::native == std::endian::little);
    std::memcpy(&word, elements.data() + at, static_cast<size_t>(size));
    hash = c_hash(hash, static_cast<uint32_t>(word));
    if (size == 8) hash = c_hash(hash, static_cast<uint32_t>(word >> 32));
  }
  return hash;
}

}  // namespace qtape
