// Observer methods: names, and rejected settings.
#include <doctest/doctest.h>

#include <limits>
#include <string>

#include "qtape/tests/calibrate/observer_data.h"
#include "qtape/tests/support/errors.h"

using namespace qtape;
using namespace qtape::test;

namespace {

const Grid grid = grid_of(8, CodeRange::Narrow);

std::string construction_error(const ObserverMethod& method, const Grid& on = grid,
                               int64_t channels = 1) {
  return error_text<ArgumentError>([&] { (void)Observer(method, on, channels); });
}

}  // namespace

TEST_CASE("observer: methods out of their ranges") {
  const std::string bins = "bins must be a power of two in 16..65536, got ";
  CHECK(construction_error(Histogram{.bins = 100}) == "Histogram: " + bins + "100");
  CHECK(construction_error(Percentile{.bins = 8}) == "Percentile: " + bins + "8");
  CHECK(construction_error(Mse{.bins = 131072}) == "Mse: " + bins + "131072");
  CHECK(construction_error(Kl{.bins = -16}) == "Kl: " + bins + "-16");
  CHECK(construction_error(MovingAverage{.averaging_constant = 0}) ==
        "MovingAverage: averaging_constant must be in (0, 1], got 0");
  CHECK(construction_error(MovingAverage{.averaging_constant = not_a_number}) ==
        "MovingAverage: averaging_constant must be in (0, 1], got nan");
  CHECK(construction_error(Percentile{.percent = 100.5}) ==
        "Percentile: percent must be in (0, 100], got 100.5");
  CHECK(construction_error(Percentile{.percent = 0}) ==
        "Percentile: percent must be in (0, 100], got 0");
  CHECK(construction_error(Mse{.steps = 0}) == "Mse: steps must be in 1..65536, got 0");
  CHECK(construction_error(ClipStd{.deviations = infinity}) ==
        "ClipStd: deviations must be finite and > 0, got inf");
  CHECK(construction_error(FixedScale{.scale = -1}) ==
        "FixedScale: scale must be finite and > 0, got -1");
  CHECK(construction_error(FixedScale{.zero_point = 0.5}) ==
        "FixedScale: zero_point must be an integer, got 0.5");
  CHECK(construction_error(FixedScale{.zero_point = 1}) ==
        "FixedScale: zero_point must be in 0..0 on this grid, got 1");
  CHECK(construction_error(FixedScale{.zero_point = 16},
                           grid_of(4, CodeRange::Unsigned, Scheme::Affine)) ==
        "FixedScale: zero_point must be in 0..15 on this grid, got 16");
  CHECK(construction_error(Mix{.candidates = {}}) ==
        "Mix: candidates must name at least one method, got none");
  const std::string candidates =
      "Mix: candidates must be among MinMax, MovingAverage, Histogram, Percentile, Mse, Kl, "
      "ClipStd, Lsq, FixedScale, Mix except Mix, Lsq and FixedScale, got ";
  CHECK(construction_error(Mix{.candidates = {"Mse", "median"}}) == candidates + "\"median\"");
  CHECK(construction_error(Mix{.candidates = {"mix"}}) == candidates + "\"mix\"");
  CHECK(construction_error(Mix{.candidates = {"FixedScale"}}) == candidates + "\"FixedScale\"");
  CHECK(construction_error(Mix{.candidates = {"Lsq"}}) == candidates + "\"Lsq\"");
}

TEST_CASE("observer: grids and channels that cannot be") {
  CHECK(construction_error(MinMax{}, grid_of(1, CodeRange::Narrow)) ==
        "Observer: codes must have q_min <= 0 < q_max within 16 bits, got q_min 0 and q_max 0");
  Grid wide = grid;
  wide.limits = {-32768, std::numeric_limits<int32_t>::max()};
  CHECK(construction_error(MinMax{}, wide) ==
        "Observer: codes must have q_min <= 0 < q_max within 16 bits, got q_min -32768 and "
        "q_max 2147483647");
  Grid floorless = grid;
  floorless.floor = 0;
  CHECK(construction_error(MinMax{}, floorless) ==
        "Observer: floor must be a normal f32 above 0, got 0");
  CHECK(construction_error(MinMax{}, grid, 0) ==
        "Observer: channels must be in 1..281474976710656, got 0");
  CHECK(construction_error(Kl{}, grid, int64_t{1} << 40) ==
        "Observer: channels must be in 1..137438953472, got 1099511627776");
}

TEST_CASE("observer: methods by name") {
  for_each_alternative<ObserverMethod>([&]<class Method>() {
    std::string name(Method::name);
    CHECK(observer_method(name) == ObserverMethod(Method{}));
    for (char& letter : name) letter = static_cast<char>(std::toupper(letter));
    CHECK(observer_method(name) == ObserverMethod(Method{}));
    CHECK(name_of(Method{}) == Method::name);
    validate(Method{});
  });
  CHECK(error_text<ArgumentError>([] { (void)observer_method("median"); }) ==
        "unknown observer method \"median\"; expected one of MinMax, MovingAverage, "
        "Histogram, Percentile, Mse, Kl, ClipStd, Lsq, FixedScale, Mix");
}

TEST_CASE("observer: methods with their settings as texts") {
  CHECK(to_string(ObserverMethod(MinMax{})) == "MinMax");
  CHECK(to_string(ObserverMethod(Percentile{.percent = 99})) ==
        "Percentile {percent: 99, bins: 2048}");
  CHECK(to_string(ObserverMethod(Mix{.candidates = {"Kl", "Mse"}})) ==
        "Mix {candidates: [Kl, Mse]}");
  std::string names;
  for (const ObserverMethod& each : methods_from_data()) {
    names += std::string(name_of(each)) + " ";
  }
  CHECK(names == "MinMax MovingAverage Histogram Percentile Mse Kl ClipStd Lsq Mix ");
}
