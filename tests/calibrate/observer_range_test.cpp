// Ranges chosen by observer methods, against searches over the raw data.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "qtape/kernels/quantize/quantize.h"
#include "qtape/tests/calibrate/observer_data.h"

using namespace qtape;
using namespace qtape::kernels;
using namespace qtape::test;

namespace {

struct GridCase {
  std::string name;
  Grid grid;
};

const std::vector<GridCase> grids = {
    {"1 bit unsigned", grid_of(1, CodeRange::Unsigned)},
    {"2 bits narrow", grid_of(2, CodeRange::Narrow)},
    {"4 bits full", grid_of(4, CodeRange::Full)},
    {"8 bits narrow", grid_of(8, CodeRange::Narrow)},
    {"8 bits unsigned", grid_of(8, CodeRange::Unsigned)},
    {"16 bits full", grid_of(16, CodeRange::Full)},
    {"2 bits affine", grid_of(2, CodeRange::Unsigned, Scheme::Affine)},
    {"4 bits affine", grid_of(4, CodeRange::Full, Scheme::Affine)},
    {"8 bits affine", grid_of(8, CodeRange::Unsigned, Scheme::Affine)},
    {"16 bits affine", grid_of(16, CodeRange::Unsigned, Scheme::Affine)}};

struct DataCase {
  std::string name;
  Values x;
};

const std::vector<DataCase> data_cases = {
    {"uniform", uniform(4000, -1, 1)},
    {"above 0", uniform(4000, 3, 5)},
    {"below 0", uniform(4000, -0.7, -0.2)},
    {"gaussian", gaussian(4000)},
    {"one side", exponential(4000, false)},
    {"two sides", exponential(4000, true)},
    {"outliers", with(gaussian(4000), {30, -24, 28})},
    {"outlier below", with(exponential(4000, false), {-20})},
    {"offset", with(gaussian(4000, 0.5), uniform(4000, 1, 3))}};

/// Smallest raw error of all ranges whose ends are multiples of 1/`steps` of the data's range.
double min_raw_error(const Values& x, const Grid& grid, int steps, bool same_fraction) {
  const ValueRange<double> all = extent(x);
  const bool one_end = grid.scheme == Scheme::Symmetric || same_fraction;
  double least = infinity;
  for (int i = 1; i <= steps; ++i) {
    const double f = i / double(steps);
    if (one_end) {
      least = std::min(least, raw_error(x, {f * all.min, f * all.max}, grid));
      continue;
    }
    for (int j = 1; j <= steps; ++j) {
      least = std::min(least, raw_error(x, {f * all.min, j / double(steps) * all.max}, grid));
    }
  }
  return least;
}

void check_within(const ValueRange<double>& range, const Values& x) {
  CHECK(range.min >= extent(x).min);
  CHECK(range.max <= extent(x).max);
  CHECK(range.min <= range.max);
}

/// Calls f(grid, x) for all grids and data.
template <class F>
void for_each_case(F f) {
  for (const GridCase& g : grids) {
    for (const DataCase& d : data_cases) {
      INFO(g.name, ", ", d.name);
      f(g.grid, d.x);
    }
  }
}

/// Calls f(method, grid) for all methods that choose ranges and all grids, changed by
/// `change`.
template <class Change, class F>
void for_each_method(Change change, F f) {
  for (GridCase g : grids) {
    change(g);
    for_each_alternative<ObserverMethod>([&]<class Method>() {
      if (detail::gives_qparams(Method{})) return;
      INFO(Method::name, ", ", g.name);
      f(Method{}, g.grid);
    });
  }
}

void check_least(const ObserverMethod& method, const Grid& grid, const Values& x, double best) {
  const ValueRange<double> range = range_by(method, grid, x);
  check_within(range, x);
  const double error = raw_error(x, range, grid);
  CHECK(error <= 1.03 * best);
  CHECK(error <= raw_error(x, extent(x), grid) * (1 + 1e-6));
}

}  // namespace

TEST_CASE("observer: Histogram has the least squared error of all ranges") {
  for_each_case([](const Grid& grid, const Values& x) {
    const int steps = grid.scheme == Scheme::Symmetric ? 300 : 24;
    check_least(Histogram{}, grid, x, min_raw_error(x, grid, steps, false));
  });
}

TEST_CASE("observer: Mse has the least squared error of the shrunk ranges") {
  for_each_case([](const Grid& grid, const Values& x) {
    check_least(Mse{}, grid, x, min_raw_error(x, grid, 100, true));
  });
}

TEST_CASE("observer: Histogram finds the bulk between outliers of either side") {
  const Values x = with(gaussian(20000), {60, -90});
  const ValueRange<double> wide = {-90, 60};
  for (const int bits : {2, 3, 4}) {
    CAPTURE(bits);
    const Grid affine = grid_of(bits, CodeRange::Unsigned, Scheme::Affine);
    const ValueRange<double> range = range_by(Histogram{}, affine, x);
    CHECK(range.max_abs() < 15);
    CHECK(raw_error(x, range, affine) < 0.75 * raw_error(x, wide, affine));
    CHECK(raw_error(x, range, affine) <=
          1.001 * raw_error(x, range_by(Mse{}, affine, x), affine));
  }
}

TEST_CASE("observer: Percentile is within a bin of the sorted data") {
  struct Case {
    double percent;
    int64_t bins;
  };
  for (const Case c : {Case{99.99, 2048}, Case{99, 2048}, Case{90, 64}, Case{50, 256},
                       Case{0.1, 2048}, Case{100, 16}}) {
    for (const DataCase& d : data_cases) {
      INFO(c.percent, " %, ", c.bins, " bins, ", d.name);
      const Percentile method{.percent = c.percent, .bins = c.bins};
      const auto n = static_cast<double>(d.x.size());
      const double width =
          std::exp2(std::ceil(std::log2(extent(d.x).max_abs()))) / static_cast<double>(c.bins);
      Values sorted = d.x;
      std::ranges::sort(sorted);
      const auto cut = static_cast<size_t>((100 - c.percent) / 200 * n);
      const auto affine =
          range_by(method, grid_of(8, CodeRange::Unsigned, Scheme::Affine), d.x);
      check_within(affine, d.x);
      CHECK(std::fabs(affine.min - sorted[cut]) <= width);
      CHECK(std::fabs(affine.max - sorted[sorted.size() - 1 - cut]) <= width);
      for (double& value : sorted) value = std::fabs(value);
      std::ranges::sort(sorted);
      const auto symmetric = range_by(method, grid_of(8, CodeRange::Narrow), d.x);
      check_within(symmetric, d.x);
      const double top =
          sorted[sorted.size() - 1 - static_cast<size_t>((100 - c.percent) / 100 * n)];
      CHECK(std::fabs(symmetric.max_abs() - std::max(top, sorted[0])) <= width);
    }
  }
}

TEST_CASE("observer: Percentile of all data is MinMax, zeros count") {
  const Grid affine = grid_of(8, CodeRange::Unsigned, Scheme::Affine);
  for (const DataCase& d : data_cases) {
    CHECK(range_by(Percentile{.percent = 100}, affine, d.x) == extent(d.x));
  }
  Values x(900, 0.0);
  for (int i = 0; i < 100; ++i) x.push_back(1 + i / 100.0);
  CHECK(range_by(Percentile{.percent = 85}, affine, x).max <= 1.27);
  CHECK(range_by(Percentile{.percent = 85}, affine, x).max >= 1.23);
  CHECK(range_by(Percentile{.percent = 50}, affine, x) == ValueRange<double>{0, 0});
  CHECK(range_by(Percentile{.percent = 80}, grid_of(8, CodeRange::Narrow), x) ==
        ValueRange<double>{0, 0});
}

TEST_CASE("observer: ClipStd is the mean and standard deviation of two passes") {
  for (const double offset : {0.0, 1.0, -1e6, 1e9}) {
    CAPTURE(offset);
    Values x = gaussian(30000, 0.01);
    for (double& value : x) value += offset;
    Observer observer(ClipStd{.deviations = 1.5}, grid_of(8, CodeRange::Narrow), 1);
    for (size_t i = 0; i < x.size(); i += 1000) {
      observer.observe<double>(std::span(x).subspan(i, 1000), {});
    }
    long double mean = 0;
    for (const double value : x) mean += value;
    mean /= static_cast<long double>(x.size());
    long double squares = 0;
    for (const double value : x) squares += (value - mean) * (value - mean);
    const long double reach = 1.5L * std::sqrt(squares / static_cast<long double>(x.size()));
    const double tolerance = 1e-9 * 0.01 + 4e-16 * std::fabs(offset);
    const ValueRange<double> range = observer.ranges()[0];
    CHECK(std::fabs(static_cast<double>(range.min - (mean - reach))) <= tolerance);
    CHECK(std::fabs(static_cast<double>(range.max - (mean + reach))) <= tolerance);
  }
}

TEST_CASE("observer: ClipStd is cut at the smallest and largest value") {
  const Grid grid = grid_of(8, CodeRange::Narrow);
  CHECK(range_by(ClipStd{.deviations = 50}, grid, {-1, 2, 3}) == ValueRange<double>{-1, 3});
  CHECK(range_by(ClipStd{}, grid, {7, 7, 7}) == ValueRange<double>{7, 7});
  CHECK(range_by(ClipStd{.deviations = 0.1}, grid, {-1e308, 1e308}) ==
        ValueRange<double>{-1e308, 1e308});
}

TEST_CASE("observer: MovingAverage blends what each batch brings") {
  Observer observer(MovingAverage{.averaging_constant = 0.25}, grid_of(8, CodeRange::Narrow),
                    1);
  double min = -1;
  double max = 1;
  for (int batch = 0; batch < 20; ++batch) {
    const double low = -1.0 - batch * 0.5;
    const double high = 1.0 + batch % 3;
    observer.observe<double>(Values{0, high, low, not_a_number}, {});
    if (batch > 0) {
      min = 0.75 * min + 0.25 * low;
      max = 0.75 * max + 0.25 * high;
    }
    CHECK(observer.ranges()[0] == ValueRange<double>{min, max});
    observer.observe<double>(Values{not_a_number}, {});
    observer.observe<double>(Values{}, {});
  }
  Observer last(MovingAverage{.averaging_constant = 1}, grid_of(8, CodeRange::Narrow), 1);
  last.observe<double>(Values{-5, 5}, {});
  last.observe<double>(Values{-1, 2}, {});
  CHECK(last.ranges()[0] == ValueRange<double>{-1, 2});
}

TEST_CASE("observer: Kl clips the outliers of a gaussian") {
  const Values x = with(gaussian(50000), {50, -49, 48, 47, -46});
  for (const int bits : {2, 3, 4, 6, 8}) {
    CAPTURE(bits);
    for (const Grid& grid : {grid_of(bits, CodeRange::Narrow), grid_of(bits, CodeRange::Full),
                             grid_of(bits, CodeRange::Unsigned, Scheme::Affine)}) {
      const ValueRange<double> range = range_by(Kl{}, grid, x);
      check_within(range, x);
      CHECK(range.max > 2);
      CHECK(range.min < -2);
      CHECK(range.max_abs() < 6);
    }
  }
  Values positive = x;
  for (double& value : positive) value = std::fabs(value);
  for (const int bits : {1, 2, 4, 7}) {
    CAPTURE(bits);
    const ValueRange<double> range =
        range_by(Kl{}, grid_of(bits, CodeRange::Unsigned), positive);
    CHECK(range.max > 2);
    CHECK(range.max < 7);
  }
}

TEST_CASE("observer: Kl does not take a range of a few bins for a good one") {
  const Values x = gaussian(50000);
  for (const int64_t bins : {16, 32, 64, 256}) {
    for (const int bits : {2, 3, 4}) {
      INFO("bins ", bins, ", bits ", bits);
      CHECK(range_by(Kl{.bins = bins}, grid_of(bits, CodeRange::Narrow), x).max > 1.5);
    }
  }
}

TEST_CASE("observer: Kl does not take a sliver of discrete data for a good range") {
  // Similar to pixels: multiples of 1 / 255, most of them close to 1.
  Values x = uniform(2000, 0, 1);
  for (double& v : x) v = std::round(255 * v) / 255;
  for (int k = 0; k < 3; ++k) x = with(x, Values(2000, (253.0 + k) / 255));
  for (const int bits : {2, 3, 4, 8}) {
    CAPTURE(bits);
    CHECK(range_by(Kl{}, grid_of(bits, CodeRange::Unsigned), x).max > 0.5);
  }
}

TEST_CASE("observer: Kl leaves out values that no code of an unsigned grid can hold") {
  Values x = gaussian(50000);
  for (double& value : x) value = std::fabs(value);
  const Grid grid = grid_of(4, CodeRange::Unsigned);
  const ValueRange<double> range = range_by(Kl{}, grid, with(x, uniform(50000, -60, -50)));
  CHECK(range.max_abs() > 2);
  CHECK(range.max_abs() < 6);
}

TEST_CASE("observer: Kl keeps nearly all of uniform data") {
  for (const int bits : {2, 4, 8, 12, 16}) {
    CAPTURE(bits);
    for (const Grid& grid : {grid_of(bits, CodeRange::Narrow), grid_of(bits, CodeRange::Full),
                             grid_of(bits, CodeRange::Unsigned, Scheme::Affine)}) {
      const ValueRange<double> range = range_by(Kl{}, grid, uniform(50000, -3, 3));
      CHECK(range.max > 2.97);
      CHECK(range.min < -2.97);
    }
    CHECK(range_by(Kl{}, grid_of(bits, CodeRange::Unsigned), uniform(50000, 0, 3)).max > 2.97);
  }
}

TEST_CASE("observer: Kl and Mse of 16 bits keep everything") {
  const Values x = with(gaussian(20000), {9, -9.5});
  const Grid grid = grid_of(16, CodeRange::Narrow);
  CHECK(range_by(Kl{}, grid, x) == ValueRange<double>{-9.5, 9});
  CHECK(range_by(Mse{}, grid, x) == ValueRange<double>{-9.5, 9});
}

TEST_CASE("observer: Mix takes the candidate with the least error over all channels") {
  const Mix mix;
  for_each_case([&](const Grid& grid, const Values& x) {
    const ValueRange<double> chosen = range_by(mix, grid, x);
    double least = infinity;
    bool found = false;
    for (const std::string& name : mix.candidates) {
      const ValueRange<double> range = range_by(observer_method(name), grid, x);
      found = found || range == chosen;
      least = std::min(least, raw_error(x, range, grid));
    }
    CHECK(found);
    CHECK(raw_error(x, chosen, grid) <= 1.01 * least);
  });
}

TEST_CASE("observer: Mix weighs channels by their error") {
  // ClipStd suits the first channel, MinMax the second; the channel with the larger values
  // decides.
  const Grid grid = grid_of(4, CodeRange::Narrow);
  const Values clipped = with(gaussian(5000, 1), {12});
  Values flat(clipped.size(), 0.0);
  for (size_t i = 0; i < flat.size(); i += 50) flat[i] = i % 100 == 0 ? 1 : -1;
  for (const double scale : {1e-3, 1e3}) {
    Values x;
    for (const double value : clipped) x.push_back(value);
    for (const double value : flat) x.push_back(scale * value);
    const auto n = static_cast<int64_t>(flat.size());
    Observer observer(Mix{.candidates = {"clipstd", "MINMAX"}}, grid, 2);
    observer.observe<double>(x, ChannelMap({2, n}, {.axis = 0}));
    const auto ranges = observer.ranges();
    CHECK((ranges[0].max < 12) == (scale < 1));
    CHECK((ranges[1].max < scale) == (scale < 1));
  }
}

TEST_CASE("observer: constant data are their own range") {
  for (const double c : {0.0, 1.0, -3.7, 1e-300, -1e300}) {
    CAPTURE(c);
    for_each_method([](GridCase&) {},
                    [&](const ObserverMethod& method, const Grid& grid) {
                      CHECK(range_by(method, grid, Values(100, c)) == ValueRange<double>{c, c});
                    });
  }
}

TEST_CASE("observer: the smallest and largest numbers are safe") {
  const double denormal = std::numeric_limits<double>::denorm_min();
  const double largest = std::numeric_limits<double>::max();
  const std::vector<Values> extremes = {{-denormal, 0, denormal, 3 * denormal},
                                        {-largest, 0, largest},
                                        {largest / 2, largest},
                                        {denormal, largest},
                                        {-1e-310, 1e308, 0},
                                        {1e-200, -1e200, 1}};
  const auto raise_floor = [](GridCase& g) {
    g.grid.floor = g.name.starts_with("8") ? 1e38 : 1e-12;
  };
  for (const Values& x : extremes) {
    CAPTURE(extent(x).max);
    for_each_method(raise_floor, [&](const ObserverMethod& method, const Grid& grid) {
      const Observer observer = observed(method, grid, x);
      check_within(observer.ranges()[0], x);
      CHECK(observer.qparams()[0].scale > 0);
      CHECK(observer.qparams()[0].scale <= largest);
    });
  }
}

TEST_CASE("observer: qparams are those of the range") {
  const Values x = with(gaussian(2000), {4, 5});
  const auto change = [](GridCase& g) {
    g.grid.rounding = Rounding::HalfUp;
    g.grid.denominator = Denominator::HalfSpan;
  };
  for_each_method(change, [&](const ObserverMethod& method, const Grid& grid) {
    const Observer observer = observed(method, grid, x);
    CHECK(observer.qparams()[0] == qparams_of(observer.ranges()[0], grid));
  });
}

TEST_CASE("observer: FixedScale is what it was given") {
  const Grid grid = grid_of(4, CodeRange::Unsigned, Scheme::Affine);
  Observer observer(FixedScale{.scale = 0.5, .zero_point = 3}, grid, 2);
  CHECK(observer.calibrated());
  CHECK(observer.qparams() == std::vector<QParams<double>>(2, {0.5, 3}));
  CHECK(observer.ranges() == std::vector<ValueRange<double>>(2, {-1.5, 6}));
  observer.observe<double>(Values{100, infinity}, ChannelMap({2}, {.axis = 0}));
  CHECK(observer.qparams() == std::vector<QParams<double>>(2, {0.5, 3}));
  CHECK(observer.non_finite() == 1);
}

TEST_CASE("observer: Lsq is the rule of learned scales") {
  const Values x = {1, -1, 2, 4, 0, 0, 0, 0, -3, infinity, -3, not_a_number};
  const ChannelMap map({3, 4}, {.axis = 0});
  for (const CodeRange range : {CodeRange::Narrow, CodeRange::Full, CodeRange::Unsigned}) {
    const Grid grid = grid_of(3, range);
    Observer observer(Lsq{}, grid, 3);
    observer.observe<double>(x, map);
    const double root = std::sqrt(double(grid.limits.q_max));
    CHECK(observer.qparams() == std::vector<QParams<double>>{{4 / root, 0},
                                                             {1.0 / grid.limits.q_max, 0},
                                                             {6 / root, 0}});
    CHECK(observer.ranges()[2] ==
          ValueRange<double>{grid.limits.q_min * (6 / root), grid.limits.q_max * (6 / root)});
    observer.observe<double>(Values(12, 5), map);
    CHECK(observer.qparams()[0].scale == 2 * 28.0 / 8 / root);
    CHECK(observer.qparams()[2].scale == 2 * 26.0 / 6 / root);
  }
  // One of four magnitudes is below 0: it gets 1.75 of 7 codes, and the others the rule of a
  // grid of 5.25 codes.
  const Grid affine = grid_of(3, CodeRange::Unsigned, Scheme::Affine);
  const auto start = [&](Values seen, size_t zeros) {
    seen.resize(seen.size() + zeros);
    return observed(Lsq{}, affine, seen).qparams()[0];
  };
  CHECK(start({-1, 1, 2}, 13) == QParams<double>{2 * (4.0 / 16) / std::sqrt(5.25), 2});
  CHECK(start({1, 2, 3}, 13) == QParams<double>{2 * (6.0 / 16) / std::sqrt(7.0), 0});
  CHECK(start({-1, -2, -3}, 13) == QParams<double>{2 * (6.0 / 16) / std::sqrt(7.0), 7});
  // The range has a smaller scale.
  CHECK(start({1, 2, 3}, 0) == QParams<double>{3 / 7.0, 0});
  CHECK(start({-1, 1, 2}, 0) == QParams<double>{3 / 7.0, 2});
  Grid powers = grid_of(3, CodeRange::Narrow);
  powers.power_of_two = true;
  CHECK(observed(Lsq{}, powers, {1, -1, 2, 4}).qparams()[0].scale == 4);
}

TEST_CASE("observer: on grids of powers of two every method gives one") {
  const Values x = with(gaussian(2000), {4, 5});
  const auto change = [](GridCase& g) { g.grid.power_of_two = true; };
  for_each_method(change, [&](const ObserverMethod& method, const Grid& on) {
    const double scale = observed(method, on, x).qparams()[0].scale;
    CHECK(std::exp2(std::round(std::log2(scale))) == scale);
  });
  Grid grid = grid_of(4, CodeRange::Narrow, Scheme::Symmetric);
  grid.power_of_two = true;
  CHECK(Observer(FixedScale{.scale = 0.25}, grid, 1).qparams()[0].scale == 0.25);
  CHECK_THROWS_WITH_AS((void)Observer(FixedScale{.scale = 0.3}, grid, 1),
                       "FixedScale: scale must be a power of two on this grid, got 0.3",
                       ArgumentError);
}
