// Generated digits: the same bytes on every machine, with the documented properties.
#include "qtape/data/generated/digits.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "qtape/core/error.h"
#include "qtape/io/sha256.h"

namespace {

using qtape::ArgumentError;
using qtape::data::Dataset;
using qtape::data::generate_digits;
using qtape::data::Split;

std::span<const uint8_t> pixels(const Dataset& set) { return set.values<uint8_t>("x"); }
std::span<const int32_t> labels(const Dataset& set) { return set.values<int32_t>("labels"); }

std::string pixel_digest(const Dataset& set) {
  return qtape::sha256_hex(std::as_bytes(pixels(set)));
}

}  // namespace

TEST_CASE("digits: a seed gives the recorded bytes") {
  const Split split = generate_digits(1, 100, 50);
  CHECK(pixel_digest(split.train) ==
        "45f734a305b6036d947aada88b5a139758febf05993aa72dc57e303b819934f6");
  CHECK(pixel_digest(split.test) ==
        "3ee7312491d9b042d6beeace0be86e480addeade257f9ff5e677df146635d711");
  CHECK(std::vector<int32_t>(labels(split.train).begin(), labels(split.train).begin() + 10) ==
        std::vector<int32_t>{5, 2, 1, 0, 7, 9, 4, 6, 3, 8});
}

TEST_CASE("digits: shapes are those of MNIST") {
  const Split split = generate_digits(7, 30, 20);
  for (const Dataset& set : {split.train, split.test}) {
    CHECK(set.columns()[0].sample.shape == qtape::Shape{28, 28});
    CHECK(set.classes() == 10);
    CHECK(pixels(set).size() == static_cast<size_t>(set.size() * 784));
  }
  CHECK(split.train.size() == 30);
  CHECK(split.test.size() == 20);
}

TEST_CASE("digits: another seed and another part are other images") {
  const Split one = generate_digits(1, 20, 20);
  const Split two = generate_digits(2, 20, 20);
  CHECK(!std::ranges::equal(pixels(one.train), pixels(two.train)));
  CHECK(!std::ranges::equal(labels(one.train), labels(two.train)));
  CHECK(!std::ranges::equal(pixels(one.test), pixels(two.test)));
  CHECK(!std::ranges::equal(pixels(one.train), pixels(one.test)));
  CHECK(!std::ranges::equal(labels(one.train), labels(one.test)));
}

TEST_CASE("digits: a smaller set is a prefix of a larger one") {
  const Dataset large = generate_digits(3, 57, 0).train;
  const Dataset small = generate_digits(3, 23, 9).train;
  CHECK(std::ranges::equal(pixels(small), pixels(large).first(pixels(small).size())));
  CHECK(std::ranges::equal(labels(small), labels(large).first(labels(small).size())));
}

TEST_CASE("digits: every ten labels are a permutation, not always the same") {
  const Dataset set = generate_digits(4, 200, 0).train;
  const std::span<const int32_t> all = labels(set);
  std::vector<std::vector<int32_t>> orders;
  for (auto at = all.begin(); at != all.end(); at += 10) {
    std::vector<int32_t> ten(at, at + 10);
    orders.push_back(ten);
    std::sort(ten.begin(), ten.end());
    CHECK(ten == std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  }
  std::sort(orders.begin(), orders.end());
  CHECK(std::unique(orders.begin(), orders.end()) == orders.end());
}

TEST_CASE("digits: every image has bright ink and a darker background") {
  const Dataset set = generate_digits(5, 500, 0).train;
  for (int64_t i = 0; i < set.size(); ++i) {
    CAPTURE(i);
    const auto first = pixels(set).begin() + i * 784;
    const auto last = first + 784;
    CHECK(std::count_if(first, last, [](uint8_t pixel) { return pixel >= 100; }) >= 8);
    CHECK(std::count_if(first, last, [](uint8_t pixel) { return pixel < 100; }) >= 392);
  }
}

TEST_CASE("digits: hard ones are others of the same labels, fainter and fuller") {
  const Dataset plain = generate_digits(5, 200, 0).train;
  const Dataset hard = generate_digits(5, 200, 0, qtape::data::DigitKind::Hard).train;
  CHECK(std::ranges::equal(labels(plain), labels(hard)));
  const auto pixels_above = [](const Dataset& set, int level) {
    return std::ranges::count_if(pixels(set), [&](int pixel) { return pixel >= level; });
  };
  // A tenth of the pixels are bright, and half as many more are not dark.
  CHECK(pixels_above(hard, 200) * 5 < pixels_above(plain, 200));
  CHECK(pixels_above(hard, 40) * 4 > pixels_above(plain, 40) * 5);
  CHECK(pixel_digest(hard) ==
        "f34517e34147f2cf95025d1f14c0d4014fe658bff182f0b522e50818d6f4e75c");
}

TEST_CASE("digits: no images are allowed, a negative count is an error") {
  CHECK(generate_digits(1, 0, 0).train.size() == 0);
  CHECK_THROWS_WITH_AS(generate_digits(1, -1, 0),
                       "generate_digits: expected a count within 0..10000000, got -1",
                       ArgumentError);
  CHECK_THROWS_WITH_AS(generate_digits(1, 0, 10000001),
                       "generate_digits: expected a count within 0..10000000, got 10000001",
                       ArgumentError);
}
