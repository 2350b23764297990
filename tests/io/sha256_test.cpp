// SHA-256 against the published FIPS 180-4 / NIST CAVP vectors, and in pieces of odd sizes.
#include "qtape/io/sha256.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string digest_in_pieces(std::string_view text, size_t piece) {
  qtape::Sha256 sha;
  for (size_t at = 0; at < text.size(); at += piece) {
    sha.update(bytes_of(text.substr(at, piece)));
  }
  return qtape::hex(sha.digest());
}

struct Vector {
  std::string message;
  std::string digest;
};

}  // namespace

TEST_CASE("sha256: published vectors") {
  const std::vector<Vector> vectors = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
       "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
       "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
      {"\xbd", "68325720aabd7c82f30f554b313d0570c95accbb7dc4b5aae11204c08ffe732b"},
      {std::string(64, '\0'),
       "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b"},
  };
  for (const Vector& vector : vectors) {
    CAPTURE(vector.message);
    CHECK(qtape::sha256_hex(bytes_of(vector.message)) == vector.digest);
  }
}

TEST_CASE("sha256: one million times the letter a") {
  const std::string message(1000000, 'a');
  const std::string expected =
      "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
  CHECK(qtape::sha256_hex(bytes_of(message)) == expected);
  for (const size_t piece : {1u, 63u, 65u, 127u, 4099u}) {
    CAPTURE(piece);
    CHECK(digest_in_pieces(message, piece) == expected);
  }
}

TEST_CASE("sha256: pieces do not matter at any length around the block size") {
  for (size_t length = 0; length <= 200; ++length) {
    std::string message(length, '\0');
    for (size_t i = 0; i < length; ++i) message[i] = static_cast<char>(i * 7 + length);
    const std::string whole = qtape::sha256_hex(bytes_of(message));
    for (const size_t piece : {1u, 3u, 55u, 56u, 64u}) {
      INFO("length ", length, ", piece ", piece);
      CHECK(digest_in_pieces(message, piece) == whole);
    }
  }
}

TEST_CASE("sha256: digest does not end the message") {
  qtape::Sha256 sha;
  sha.update(bytes_of("ab"));
  CHECK(sha.digest() == sha.digest());
  sha.update(bytes_of("c"));
  sha.update({});
  CHECK(qtape::hex(sha.digest()) == qtape::sha256_hex(bytes_of("abc")));
}

TEST_CASE("hex: two lower-case digits per byte") {
  const std::vector<uint8_t> bytes = {0x00, 0x0f, 0xa0, 0xff};
  CHECK(qtape::hex(bytes) == "000fa0ff");
  CHECK(qtape::hex({}).empty());
}
