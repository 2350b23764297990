// Packed storage of codes: several per byte, the first in the lowest bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace qtape::kernels {

/// The fewest bits, 2, 4 or 8, that hold the codes low..high within s8 in two's complement.
int storage_bits(int32_t low, int32_t high);

/// Bytes of `count` codes of `bits` 2, 4 or 8. Throws ArgumentError for other bits and for a
/// negative count.
int64_t packed_bytes(int64_t count, int bits);

/// Codes of `bits` 2, 4 or 8, two's complement, low bits first; the last byte is filled up with
/// 0. Throws ArgumentError for other bits and for a code outside of -2^(bits-1)..2^(bits-1)-1.
std::vector<std::byte> pack_codes(std::span<const int8_t> codes, int bits);
/// The same for codes in 0..2^bits-1.
std::vector<std::byte> pack_codes(std::span<const uint8_t> codes, int bits);

/// The `count` codes that pack_codes made `packed` of; Code is int8_t or uint8_t. Throws
/// ArgumentError as packed_bytes, for another number of bytes and for filled-up bits other than
/// 0.
template <class Code>
std::vector<Code> unpack_codes(std::span<const std::byte> packed, int64_t count, int bits);

}  // namespace qtape::kernels
