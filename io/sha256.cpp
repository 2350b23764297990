#include "qtape/io/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace qtape {
namespace {

constexpr std::array<uint32_t, 64> round_constants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
    0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
    0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
    0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
    0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
    0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
    0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2};

uint32_t load_big_endian(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 |
         uint32_t{bytes[3]};
}

void store_big_endian(uint32_t word, uint8_t* bytes) {
  for (int i = 0; i < 4; ++i) bytes[i] = static_cast<uint8_t>(word >> (24 - 8 * i));
}

/// FIPS 180-4, 6.2.2 step 1: the block's 16 words extended to 64.
std::array<uint32_t, 64> message_schedule(const uint8_t* block) {
  std::array<uint32_t, 64> w;
  for (size_t i = 0; i < 16; ++i) w[i] = load_big_endian(block + 4 * i);
  for (size_t i = 16; i < 64; ++i) {
    const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  return w;
}

/// One round (6.2.2 step 3). It writes only the two words that change; the caller renames the
/// others by rotating its arguments, which saves six moves per round.
inline void round(uint32_t a, uint32_t b, uint32_t c, uint32_t& d, uint32_t e, uint32_t f,
                  uint32_t g, uint32_t& h, uint32_t word) {
  const uint32_t sum1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
  const uint32_t choice = g ^ (e & (f ^ g));
  const uint32_t t1 = h + sum1 + choice + word;
  const uint32_t sum0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
  const uint32_t majority = (a & b) | (c & (a | b));
  d += t1;
  h = t1 + sum0 + majority;
}

}  // namespace

void Sha256::compress(const uint8_t* block) {
  std::array<uint32_t, 64> w = message_schedule(block);
  for (size_t i = 0; i < 64; ++i) w[i] += round_constants[i];
  auto [a, b, c, d, e, f, g, h] = state_;
  for (size_t i = 0; i < 64; i += 8) {
    round(a, b, c, d, e, f, g, h, w[i]);
    round(h, a, b, c, d, e, f, g, w[i + 1]);
    round(g, h, a, b, c, d, e, f, w[i + 2]);
    round(f, g, h, a, b, c, d, e, w[i + 3]);
    round(e, f, g, h, a, b, c, d, w[i + 4]);
    round(d, e, f, g, h, a, b, c, w[i + 5]);
    round(c, d, e, f, g, h, a, b, w[i + 6]);
    round(b, c, d, e, f, g, h, a, w[i + 7]);
  }
  const std::array<uint32_t, 8> worked = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state_[i] += worked[i];
}

void Sha256::update(std::span<const std::byte> bytes) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  size_t left = bytes.size();
  while (left > 0) {
    const size_t filled = length_ % block_size;
    const size_t piece = std::min(left, block_size - filled);
    if (piece == block_size) {
      compress(data);
    } else {
      std::memcpy(pending_.data() + filled, data, piece);
      if (filled + piece == block_size) compress(pending_.data());
    }
    length_ += piece;
    data += piece;
    left -= piece;
  }
}

/// FIPS 180-4, 5.1.1: a one bit, zeros, and the message length in bits as 64 bits.
void Sha256::pad() {
  const uint64_t bits = length_ * 8;
  const size_t filled = length_ % block_size;
  const size_t zeros = (filled < 56 ? 56 : 120) - filled;
  std::array<uint8_t, block_size + 8> tail = {0x80};
  store_big_endian(static_cast<uint32_t>(bits >> 32), tail.data() + zeros);
  store_big_endian(static_cast<uint32_t>(bits), tail.data() + zeros + 4);
  update(std::as_bytes(std::span(tail.data(), zeros + 8)));
}

std::array<uint8_t, 32> Sha256::digest() const {
  Sha256 finished = *this;
  finished.pad();
  std::array<uint8_t, 32> result;
  for (size_t i = 0; i < 8; ++i) store_big_endian(finished.state_[i], result.data() + 4 * i);
  return result;
}

std::string hex(std::span<const uint8_t> bytes) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const uint8_t byte : bytes) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 sha;
  sha.update(bytes);
  return hex(sha.digest());
}

}  // namespace qtape
