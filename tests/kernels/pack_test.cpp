#include "qtape/kernels/quantize/pack.h"

#include <doctest/doctest.h>

#include "qtape/core/error.h"
#include "qtape/core/random.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/first_difference.h"

using namespace qtape;
using namespace qtape::kernels;
using test::error_text;

namespace {

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

template <class Code>
std::string pack_error(const std::vector<Code>& codes, int bits) {
  return error_text<ArgumentError>([&] { (void)pack_codes(codes, bits); });
}

template <class Code>
std::string unpack_error(const std::vector<std::byte>& packed, int64_t count, int bits) {
  return error_text<ArgumentError>([&] { (void)unpack_codes<Code>(packed, count, bits); });
}

/// Packs and unpacks random codes of `bits` bits, and checks the position of every bit.
template <class Code>
void check_round_trip(int bits, size_t count) {
  const Random random(5, count);
  const int low = Code(-1) < Code(0) ? -(1 << (bits - 1)) : 0;
  std::vector<Code> codes(count);
  for (size_t i = 0; i < count; ++i) {
    codes[i] = static_cast<Code>(low + static_cast<int>(random.below(i, 1u << bits)));
  }
  const auto packed = pack_codes(codes, bits);
  const size_t all = count * static_cast<size_t>(bits);
  REQUIRE(packed.size() == (all + 7) / 8);
  CHECK(packed_bytes(static_cast<int64_t>(count), bits) == static_cast<int64_t>(packed.size()));
  test::FirstDifference found;
  for (size_t bit = 0; bit < 8 * packed.size(); ++bit) {
    const bool got = (std::to_integer<unsigned>(packed[bit / 8]) >> (bit % 8) & 1u) != 0;
    const size_t i = bit / static_cast<size_t>(bits);
    const bool expected =
        bit < all &&
        (static_cast<unsigned>(codes[i]) >> (bit % static_cast<size_t>(bits)) & 1u) != 0;
    found.compare(got, expected);
  }
  CHECK(found.text() == "");
  CHECK(unpack_codes<Code>(packed, static_cast<int64_t>(count), bits) == codes);
}

}  // namespace

TEST_CASE("pack: golden bytes, low bits first") {
  CHECK(pack_codes(std::vector<int8_t>{1, -2, 7, -8, -1}, 4) == bytes_of({0xe1, 0x87, 0x0f}));
  CHECK(pack_codes(std::vector<uint8_t>{1, 14, 15}, 4) == bytes_of({0xe1, 0x0f}));
  CHECK(pack_codes(std::vector<int8_t>{1, -2, -1, 0, 1}, 2) == bytes_of({0x39, 0x01}));
  CHECK(pack_codes(std::vector<uint8_t>{1, 2, 3, 0}, 2) == bytes_of({0x39}));
  CHECK(pack_codes(std::vector<int8_t>{-128, 127}, 8) == bytes_of({0x80, 0x7f}));
  CHECK(pack_codes(std::vector<uint8_t>{}, 4).empty());
  CHECK(unpack_codes<int8_t>(bytes_of({0xe1, 0x87, 0x0f}), 5, 4) ==
        std::vector<int8_t>{1, -2, 7, -8, -1});
  CHECK(unpack_codes<uint8_t>(bytes_of({0x39}), 3, 2) == std::vector<uint8_t>{1, 2, 3});
  CHECK(unpack_codes<int8_t>({}, 0, 2).empty());
}

TEST_CASE("pack: any count of codes comes back") {
  for (int bits : {2, 4, 8}) {
    CAPTURE(bits);
    for (size_t count : {0u, 1u, 2u, 3u, 4u, 5u, 7u, 8u, 31u, 64u, 1001u, 4096u}) {
      CAPTURE(count);
      check_round_trip<int8_t>(bits, count);
      check_round_trip<uint8_t>(bits, count);
    }
  }
}

TEST_CASE("pack: codes, bits and bytes that cannot be are refused") {
  using S = std::vector<int8_t>;
  using U = std::vector<uint8_t>;
  for (int bits : {-1, 0, 1, 3, 5, 7, 16}) {
    CHECK(pack_error(S{0}, bits) == "bits must be 2, 4 or 8, got " + std::to_string(bits));
    CHECK(unpack_error<int8_t>(bytes_of({0}), 1, bits) ==
          "bits must be 2, 4 or 8, got " + std::to_string(bits));
  }
  CHECK(pack_error(S{0, 7, 8}, 4) == "code 2 is 8, outside of -8..7 for 4 bits");
  CHECK(pack_error(S{-9}, 4) == "code 0 is -9, outside of -8..7 for 4 bits");
  CHECK(pack_error(U{15, 16}, 4) == "code 1 is 16, outside of 0..15 for 4 bits");
  CHECK(pack_error(S{1, 2}, 2) == "code 1 is 2, outside of -2..1 for 2 bits");
  CHECK(pack_error(S{-3}, 2) == "code 0 is -3, outside of -2..1 for 2 bits");
  CHECK(pack_error(U{4}, 2) == "code 0 is 4, outside of 0..3 for 2 bits");
  CHECK(unpack_error<int8_t>(bytes_of({1, 2}), 5, 4) ==
        "5 codes of 4 bits take 3 bytes, got 2");
  CHECK(unpack_error<uint8_t>(bytes_of({1, 2}), 4, 2) ==
        "4 codes of 2 bits take 1 bytes, got 2");
  CHECK(unpack_error<int8_t>({}, -1, 4) == "count must be at least 0, got -1");
  CHECK(unpack_error<int8_t>({}, int64_t{1} << 62, 8) ==
        "4611686018427387904 codes of 8 bits take 4611686018427387904 bytes, got 0");
  CHECK(unpack_error<int8_t>(bytes_of({0x1f}), 1, 4) ==
        "the last byte is 0x1f: the bits above its 1 codes must be 0");
  CHECK(unpack_error<uint8_t>(bytes_of({0xff, 0x40}), 7, 2) ==
        "the last byte is 0x40: the bits above its 3 codes must be 0");
}
