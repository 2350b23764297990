// The hash of self-tests of C programs, as c99/kernels/hash.c computes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "qtape/core/byte_order.h"

namespace qtape {

/// Hash of an empty sequence.
inline constexpr uint32_t c_hash_start = 2166136261u;

/// Returns `hash` extended by one word. Bijective in each argument when the other is fixed, so
/// a change of one word changes the hash.
constexpr uint32_t c_hash(uint32_t hash, uint32_t word) {
  hash = (hash ^ word) * 16777619u;
  return hash ^ hash >> 15;
}

/// Returns `hash` extended by elements of `size` bytes (1, 2, 4 or 8): one word per element,
/// 8-byte elements as two words, low word first.
inline uint32_t c_hash(uint32_t hash, std::span<const std::byte> elements, int64_t size) {
  const LittleEndian all(elements, size);
  for (size_t at = 0; at < elements.size(); at += static_cast<size_t>(size)) {
    uint64_t word = 0;
    read_little_endian(all.bytes().subspan(at, static_cast<size_t>(size)), std::span(&word, 1));
    hash = c_hash(hash, static_cast<uint32_t>(word));
    if (size == 8) hash = c_hash(hash, static_cast<uint32_t>(word >> 32));
  }
  return hash;
}

}  // namespace qtape
