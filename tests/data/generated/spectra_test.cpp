// Generated machine sound: the same bits on every machine, with the documented properties; and
// the AUC.
#include "qtape/data/generated/spectra.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "qtape/core/byte_order.h"
#include "qtape/core/error.h"
#include "qtape/core/random.h"
#include "qtape/io/sha256.h"
#include "qtape/model/area_under_curve.h"
#include "qtape/tests/support/errors.h"

using namespace qtape;
using data::generate_spectra;
using data::Spectra;
using data::SpectraSplit;

namespace {

std::string digest(const Spectra& spectra) {
  return sha256_hex(LittleEndian(spectra.features()).bytes());
}

/// Returns the mean of feature `index` over the samples with `fault`.
double mean_of(const Spectra& spectra, data::Fault fault, int64_t index) {
  double sum = 0;
  int64_t count = 0;
  for (int64_t i = 0; i < spectra.size(); ++i) {
    if (spectra.faults[static_cast<size_t>(i)] != fault) continue;
    sum += static_cast<double>(spectra.features()[static_cast<size_t>(i * 640 + index)]);
    ++count;
  }
  return sum / static_cast<double>(count);
}

double counted_pairs(std::span<const double> normal, std::span<const double> anomalous) {
  double pairs = 0;
  for (const double n : normal) {
    for (const double a : anomalous) pairs += a > n ? 1.0 : a == n ? 0.5 : 0.0;
  }
  return pairs / static_cast<double>(normal.size() * anomalous.size());
}

}  // namespace

TEST_CASE("spectra: a seed gives the recorded bits") {
  const SpectraSplit split = generate_spectra(1, 40, 30, 30);
  CHECK(digest(split.train) ==
        "7bfadb5c3097a782c3a4e6c138cc274ca3ac798fe7bb3880147f3c3a71433882");
  CHECK(digest(split.normal) ==
        "f501e7e30c1c4bf381f9a3339fce6f618c73ce1fb21f40e08a9fe83e0c68e756");
  CHECK(digest(split.anomalous) ==
        "9ad35b43c3daad1b3933a98f8edd59fd41d66eab0cdf5240de55aca3c9164b12");
}

TEST_CASE("spectra: another seed and another set are other samples") {
  const SpectraSplit one = generate_spectra(1, 20, 20, 20);
  const SpectraSplit two = generate_spectra(2, 20, 20, 20);
  CHECK(!std::ranges::equal(one.train.features(), two.train.features()));
  CHECK(!std::ranges::equal(one.anomalous.features(), two.anomalous.features()));
  CHECK(!std::ranges::equal(one.train.features(), one.normal.features()));
}

TEST_CASE("spectra: a smaller set is a prefix of a larger one") {
  const Spectra large = generate_spectra(3, 0, 0, 57).anomalous;
  const Spectra small = generate_spectra(3, 5, 9, 23).anomalous;
  CHECK(std::ranges::equal(small.features(), large.features().first(small.features().size())));
  CHECK(std::ranges::equal(small.faults, std::span(large.faults).first(23)));
}

TEST_CASE("spectra: values are in [0, 1], few at the ends, and samples differ") {
  const Spectra spectra = generate_spectra(4, 500, 0, 0).train;
  CHECK(spectra.features().size() == 500 * 640);
  int64_t at_ends = 0;
  for (const float each : spectra.features()) {
    REQUIRE((each >= 0.0f && each <= 1.0f));
    at_ends += each == 0.0f || each == 1.0f ? 1 : 0;
  }
  CHECK(at_ends < 100);
  CHECK(
      !std::ranges::equal(spectra.features().first(640), spectra.features().subspan(640, 640)));
}

TEST_CASE("spectra: every five anomalous samples hold each kind of fault once") {
  const SpectraSplit split = generate_spectra(5, 10, 10, 50);
  for (const Spectra& spectra : {split.train, split.normal}) {
    CHECK(std::ranges::count(spectra.faults, data::Fault::None) == 10);
  }
  for (size_t first = 0; first < 50; first += 5) {
    std::vector<data::Fault> five(
        split.anomalous.faults.begin() + static_cast<int64_t>(first),
        split.anomalous.faults.begin() + static_cast<int64_t>(first) + 5);
    std::ranges::sort(five);
    CHECK(five == std::vector{data::Fault::ExtraTone, data::Fault::MissingHarmonic,
                              data::Fault::ShiftedHarmonic, data::Fault::Click,
                              data::Fault::RaisedNoise});
  }
}

TEST_CASE("spectra: each kind of fault shows where it should") {
  const SpectraSplit split = generate_spectra(6, 0, 1000, 5000);
  // The first harmonic, 330 Hz, is in band 19 or 20; above band 90 there is only noise.
  const auto change = [&](data::Fault fault, int64_t first, int64_t last) {
    double sum = 0;
    for (int64_t band = first; band <= last; ++band) {
      sum += mean_of(split.anomalous, fault, band) -
             mean_of(split.normal, data::Fault::None, band);
    }
    return sum / static_cast<double>(last - first + 1);
  };
  CHECK(change(data::Fault::MissingHarmonic, 18, 21) < -0.01);
  CHECK(change(data::Fault::ExtraTone, 24, 27) > 0.005);
  CHECK(change(data::Fault::Click, 100, 127) > 0.005);
  CHECK(change(data::Fault::RaisedNoise, 95, 110) > 0.005);
  CHECK(std::abs(change(data::Fault::ExtraTone, 100, 127)) < 0.003);
}

TEST_CASE("spectra: no samples are allowed, a negative count is an error") {
  CHECK(generate_spectra(1, 0, 0, 0).train.size() == 0);
  CHECK(test::error_text<ArgumentError>([] { (void)generate_spectra(1, 0, -1, 0); }) ==
        "generate_spectra: expected a count within 0..1000000, got -1");
  CHECK(test::error_text<ArgumentError>([] { (void)generate_spectra(1, 0, 0, 1000001); }) ==
        "generate_spectra: expected a count within 0..1000000, got 1000001");
}

TEST_CASE("auc: agrees with a count of all pairs, ties half") {
  const Random random(7, 0);
  for (uint64_t round = 0; round < 50; ++round) {
    // Few levels, so that there are many ties.
    const uint64_t levels = 1 + round % 10;
    std::vector<double> normal(1 + random.below(1000 * round, 40));
    std::vector<double> anomalous(1 + random.below(1000 * round + 1, 40));
    uint64_t index = 1000 * round + 2;
    for (double& each : normal) each = static_cast<double>(random.below(index++, levels));
    for (double& each : anomalous) {
      each = static_cast<double>(random.below(index++, levels) + round % 2);
    }
    CHECK(area_under_curve(normal, anomalous) == counted_pairs(normal, anomalous));
  }
}

TEST_CASE("auc: known values, infinities, errors") {
  const std::vector<double> low = {1, 2}, high = {3, 4}, none;
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(area_under_curve(low, high) == 1.0);
  CHECK(area_under_curve(high, low) == 0.0);
  CHECK(area_under_curve(low, low) == 0.5);
  CHECK(area_under_curve(low, std::vector{infinity, -infinity}) == 0.5);
  CHECK(test::error_text<ArgumentError>([&] { (void)area_under_curve(low, none); }) ==
        "area_under_curve: expected scores in both sets, got 2 and 0");
  const std::vector<double> nan = {std::numeric_limits<double>::quiet_NaN()};
  CHECK(test::error_text<ArgumentError>([&] { (void)area_under_curve(nan, high); }) ==
        "area_under_curve: a score is NaN");
}
