#include "qtape/kernels/quantize/pack.h"

#include <algorithm>
#include <type_traits>

#include "qtape/core/error.h"

namespace qtape::kernels {
namespace {

void check_bits(int bits) {
  require<ArgumentError>(bits == 2 || bits == 4 || bits == 8, "bits must be 2, 4 or 8, got {}",
                         bits);
}

template <class Code>
std::vector<std::byte> pack(std::span<const Code> codes, int bits) {
  check_bits(bits);
  const int low = std::is_signed_v<Code> ? -(1 << (bits - 1)) : 0;
  const int high = low + (1 << bits) - 1;
  const auto mask = static_cast<unsigned>((1 << bits) - 1);
  const auto per_byte = static_cast<size_t>(8 / bits);
  const auto count = static_cast<int64_t>(codes.size());
  std::vector<std::byte> packed(static_cast<size_t>(packed_bytes(count, bits)));
  for (size_t i = 0; i < codes.size(); ++i) {
    const int code = +codes[i];
    require<ArgumentError>(code >= low && code <= high,
                           "code {} is {}, outside of {}..{} for {} bits", i, code, low, high,
                           bits);
    const auto shift = static_cast<int>(i % per_byte) * bits;
    packed[i / per_byte] |=
        static_cast<std::byte>((static_cast<unsigned>(code) & mask) << shift);
  }
  return packed;
}

}  // namespace

int storage_bits(int32_t low, int32_t high) {
  const int32_t most = std::max(-low - 1, high);
  if (most <= 1) return 2;
  return most <= 7 ? 4 : 8;
}

int64_t packed_bytes(int64_t count, int bits) {
  check_bits(bits);
  require<ArgumentError>(count >= 0, "count must be at least 0, got {}", count);
  const int64_t per_byte = 8 / bits;
  return count / per_byte + (count % per_byte == 0 ? 0 : 1);
}

std::vector<std::byte> pack_codes(std::span<const int8_t> codes, int bits) {
  return pack(codes, bits);
}

std::vector<std::byte> pack_codes(std::span<const uint8_t> codes, int bits) {
  return pack(codes, bits);
}

template <class Code>
std::vector<Code> unpack_codes(std::span<const std::byte> packed, int64_t count, int bits) {
  const int64_t bytes = packed_bytes(count, bits);
  require<ArgumentError>(static_cast<int64_t>(packed.size()) == bytes,
                         "{} codes of {} bits take {} bytes, got {}", count, bits, bytes,
                         packed.size());
  const auto per_byte = static_cast<size_t>(8 / bits);
  const auto n = static_cast<size_t>(count);
  if (n % per_byte != 0) {
    const unsigned padding =
        std::to_integer<unsigned>(packed.back()) >> (static_cast<int>(n % per_byte) * bits);
    require<ArgumentError>(padding == 0,
                           "the last byte is {:#04x}: the bits above its {} codes must be 0",
                           std::to_integer<unsigned>(packed.back()), n % per_byte);
  }
  std::vector<Code> codes(n);
  unsigned byte = 0;
  for (size_t i = 0; i < n; ++i) {
    if (i % per_byte == 0) byte = std::to_integer<unsigned>(packed[i / per_byte]);
    // Shifts to the top of the byte and back, which extends the sign of a signed code.
    const auto top = static_cast<Code>(byte << (8 - bits));
    byte >>= bits;
    codes[i] = static_cast<Code>(top >> (8 - bits));
  }
  return codes;
}

template std::vector<int8_t> unpack_codes(std::span<const std::byte>, int64_t, int);
template std::vector<uint8_t> unpack_codes(std::span<const std::byte>, int64_t, int);

}  // namespace qtape::kernels
