// Packed storage of codes: several codes per byte, the first in the lowest bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace qtape::kernels {

/// Smallest width of 2, 4 and 8 bits that holds the codes low..high, a subrange of s8, in two's
/// complement.
int storage_bits(int32_t low, int32_t high);

/// Bytes of `count` codes of `bits` bits (2, 4 or 8). Throws ArgumentError for other bits and
/// for a negative count.
int64_t packed_bytes(int64_t count, int bits);

/// Packs codes of `bits` bits (2, 4 or 8) in two's complement, low bits first. The last byte is
/// padded with 0. Throws ArgumentError for other bits and for a code outside
/// -2^(bits-1)..2^(bits-1)-1.
std::vector<std::byte> pack_codes(std::span<const int8_t> codes, int bits);
/// Packs codes in 0..2^bits-1 in the same way.
std::vector<std::byte> pack_codes(std::span<const uint8_t> codes, int bits);

/// Unpacks the `count` codes of `packed` as written by pack_codes; Code is int8_t or uint8_t.
/// Throws ArgumentError as packed_bytes does, and if the number of bytes is wrong or padding
/// bits are not 0.
template <class Code>
std::vector<Code> unpack_codes(std::span<const std::byte> packed, int64_t count, int bits);

}  // namespace qtape::kernels
