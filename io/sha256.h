// Incremental SHA-256 (FIPS 180-4), used to name files and to pin test data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace qtape {

/// Incremental SHA-256. The division of the message into pieces does not affect the digest.
class Sha256 {
 public:
  /// Appends `bytes` to the message, which may have fewer than 2^61 bytes in total (FIPS
  /// 180-4).
  void update(std::span<const std::byte> bytes);

  /// Digest of the message so far, most significant byte first. The message may be continued
  /// afterwards.
  std::array<uint8_t, 32> digest() const;

 private:
  static constexpr size_t block_size = 64;

  void compress(const uint8_t* block);
  void pad();

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, block_size> pending_ = {};
  uint64_t length_ = 0;
};

/// Lower-case hexadecimal, two digits per byte.
std::string hex(std::span<const uint8_t> bytes);

/// `hex` of the SHA-256 of `bytes`.
std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace qtape
