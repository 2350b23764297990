// Generated keywords: the same bytes on every machine, and classes that only the melody
// distinguishes.
#include "qtape/data/generated/tones.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "qtape/core/error.h"
#include "qtape/data/angles.h"
#include "qtape/io/sha256.h"
#include "qtape/tests/support/errors.h"

using namespace qtape;
using data::Dataset;
using data::generate_tones;

namespace {

std::span<const uint8_t> bands(const data::Dataset& set) { return set.values<uint8_t>("x"); }
std::span<const int32_t> labels(const data::Dataset& set) {
  return set.values<int32_t>("labels");
}

}  // namespace

TEST_CASE("tones: sine and cosine of turns") {
  for (int i = -1000; i <= 1000; ++i) {
    const double turns = i / 128.0;
    CHECK(std::abs(data::sine_of_turns(turns) - std::sin(turns * 6.283185307179586)) < 1e-12);
    CHECK(std::abs(data::cosine_of_turns(turns) - std::cos(turns * 6.283185307179586)) < 1e-12);
  }
  CHECK(data::sine_of_turns(0.25) == doctest::Approx(1).epsilon(1e-15));
  CHECK(data::sine_of_turns(-3) == 0);
}

TEST_CASE("tones: a seed gives the recorded bytes, and a smaller set is a prefix") {
  const data::Split split = generate_tones(1, 20, 5);
  CHECK(sha256_hex(std::as_bytes(bands(split.train))) ==
        "6ce3456eda2eaf2f11bc86e1b7d1baa5c2a031d141574083159134b1d3a394df");
  CHECK(split.train.columns()[0].sample.shape == Shape{data::tone_frames, data::tone_bands});
  CHECK(bands(split.train).size() == 20 * 980);
  const Dataset small = generate_tones(1, 7, 0).train;
  CHECK(std::ranges::equal(bands(small), bands(split.train).first(7 * 980)));
  CHECK(std::ranges::equal(labels(small), labels(split.train).first(7)));
  CHECK(!std::ranges::equal(bands(generate_tones(2, 7, 0).train), bands(small)));
  CHECK(!std::ranges::equal(bands(generate_tones(1, 0, 7).test), bands(small)));
  CHECK(test::error_text<ArgumentError>([] { (void)generate_tones(1, -1, 0); }) ==
        "the number of generated tones must be in 0..10000000, got -1");
}

TEST_CASE("tones: the mean of a class tells little: melodies lie at any place and pitch") {
  const data::Split split = generate_tones(3, 600, 200);
  const auto features = static_cast<size_t>(980);
  std::vector<std::vector<double>> means(10, std::vector<double>(features));
  std::vector<int> counts(10);
  for (size_t i = 0; i < 600; ++i) {
    const auto label = static_cast<size_t>(labels(split.train)[i]);
    ++counts[label];
    for (size_t f = 0; f < features; ++f) {
      means[label][f] += bands(split.train)[i * features + f];
    }
  }
  for (size_t c = 0; c < 10; ++c) {
    CHECK(counts[c] > 30);
    for (double& each : means[c]) each /= counts[c];
  }
  int right = 0;
  for (size_t i = 0; i < 200; ++i) {
    std::vector<double> distances(10);
    for (size_t c = 0; c < 10; ++c) {
      for (size_t f = 0; f < features; ++f) {
        const double difference = bands(split.test)[i * features + f] - means[c][f];
        distances[c] += difference * difference;
      }
    }
    const auto nearest = std::ranges::min_element(distances) - distances.begin();
    right += nearest == labels(split.test)[i] ? 1 : 0;
  }
  CHECK(right < 100);
}
