// Counter-based random numbers: the value at (seed, stream, index) depends on no state and no
// order.
#pragma once

#include <cstdint>

namespace qtape {

/// A random number generator that is a pure function of its coordinates, so threads, resumed
/// runs and skipped work cannot change its values. Mixing as in SplitMix64 (Steele, Lea, Flood,
/// OOPSLA 2014).
class Random {
 public:
  constexpr Random(uint64_t seed, uint64_t stream) : key_(mix(mix(seed) ^ (stream * golden))) {}

  /// 64 random bits at `index`.
  constexpr uint64_t bits(uint64_t index) const { return mix(key_ + (index + 1) * golden); }
  /// Uniform in [0, 1), 53 bits.
  constexpr double uniform(uint64_t index) const {
    return static_cast<double>(bits(index) >> 11) * 0x1p-53;
  }
  /// Uniform integer in [0, n), n > 0; the bias is below n / 2^64.
  constexpr uint64_t below(uint64_t index, uint64_t n) const {
    return static_cast<uint64_t>((static_cast<Wide>(bits(index)) * n) >> 64);
  }

 private:
  __extension__ using Wide = unsigned __int128;
  static constexpr uint64_t golden = 0x9e3779b97f4a7c15ULL;
  static constexpr uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  uint64_t key_;
};

}  // namespace qtape
