// State of observers: growth, merging, non-finite values, rejected data.
#include "qtape/calibrate/observer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "qtape/tests/calibrate/observer_data.h"
#include "qtape/tests/support/errors.h"

using namespace qtape;
using namespace qtape::test;

namespace {

const Grid grid = grid_of(8, CodeRange::Narrow);

/// Every method, some with settings other than the defaults.
const std::vector<ObserverMethod> methods = {MinMax{},
                                             MovingAverage{.averaging_constant = 0.3},
                                             Histogram{.bins = 64},
                                             Mse{.bins = 16},
                                             Percentile{.percent = 99, .bins = 128},
                                             Kl{.bins = 256},
                                             ClipStd{.deviations = 2},
                                             FixedScale{.scale = 0.25},
                                             Mix{}};

/// Methods whose state must not depend on the order of the data.
const std::vector<ObserverMethod> orderless = {
    MinMax{},        Histogram{},       Percentile{},
    Mse{.bins = 16}, Kl{.bins = 65536}, Mix{.candidates = {"MinMax", "Kl"}}};

void observe(Observer& observer, const Values& x, const ChannelMap& map = {}) {
  observer.observe<double>(x, map);
}

}  // namespace

TEST_CASE("observer: the order and the split of data leave no trace") {
  Values x = with(gaussian(3000, 1e-4), with(exponential(500, true), {0, -0.0, 0, 1e6, -3e9}));
  std::ranges::sort(x, {}, [](double value) { return std::fabs(value); });
  const Values falling(x.rbegin(), x.rend());
  for (const ObserverMethod& method : orderless) {
    CAPTURE(name_of(method));
    Observer rising(method, grid, 1);
    for (size_t i = 0; i < x.size(); i += 7) {
      const size_t length = std::min<size_t>(7, x.size() - i);
      rising.observe<double>(std::span(x).subspan(i, length), {});
    }
    CHECK(rising == observed(method, grid, falling));
    std::vector<Observer> parts(3, Observer(method, grid, 1));
    for (size_t i = 0; i < x.size(); ++i) observe(parts[i % 5 % 3], {falling[i]});
    Observer merged = parts[2];
    merged.merge(parts[0]);
    merged.merge(parts[1]);
    CHECK(merged == rising);
    CHECK(merged.ranges() == rising.ranges());
  }
}

TEST_CASE("observer: zeros of both signs are one value") {
  for (const ObserverMethod& method : methods) {
    CAPTURE(name_of(method));
    CHECK(observed(method, grid, {0, -0.0, 5}) == observed(method, grid, {-0.0, 0, 5}));
  }
}

TEST_CASE("observer: neither order nor split move ClipStd but for rounding") {
  Values x = gaussian(20000, 0.5);
  for (double& value : x) value += 1e7;
  const Observer whole = observed(ClipStd{}, grid, x);
  std::vector<Observer> parts(3, Observer(ClipStd{}, grid, 1));
  for (size_t i = 0; i < x.size(); i += 10) {
    parts[i % 3].observe<double>(std::span(x).subspan(i, 10), {});
  }
  parts[0].merge(parts[1]);
  parts[2].merge(parts[0]);
  const ValueRange<double> a = whole.ranges()[0];
  const ValueRange<double> b = parts[2].ranges()[0];
  CHECK(std::fabs(a.min - b.min) <= 1e-8);
  CHECK(std::fabs(a.max - b.max) <= 1e-8);
  CHECK(whole.count() == parts[2].count());
}

TEST_CASE("observer: merged moving averages are weighted by their batches") {
  const MovingAverage method{.averaging_constant = 0.5};
  Observer a(method, grid, 1);
  for (const double top : {1.0, 2.0, 4.0}) observe(a, {-1, top});
  Observer b(method, grid, 1);
  observe(b, {-5, 10});
  a.merge(b);
  CHECK(a.ranges()[0] == ValueRange<double>{-2, 0.75 * 2.75 + 0.25 * 10});
  Observer empty(method, grid, 1);
  empty.merge(a);
  CHECK(empty == a);
  a.merge(Observer(method, grid, 1));
  CHECK(empty == a);
}

TEST_CASE("observer: an observer may be merged with itself") {
  for (const ObserverMethod& method : methods) {
    CAPTURE(name_of(method));
    Observer observer = observed(method, grid, {1, 2, -3, infinity, 0});
    const Observer copy = observer;
    const auto ranges = observer.ranges();
    observer.merge(observer);
    CHECK(observer.count() == 8);
    CHECK(observer.non_finite() == 2);
    CHECK(observer.ranges() == ranges);
    CHECK(copy.count() == 4);
  }
}

TEST_CASE("observer: merge refuses observers of another kind and changes nothing") {
  struct Case {
    Observer other;
    std::string error;
  };
  const Percentile method{.percent = 99};
  Grid affine = grid;
  affine.scheme = Scheme::Affine;
  const std::vector<Case> cases = {
      {Observer(Kl{}, grid, 1),
       "methods are Percentile {percent: 99, bins: 2048} here and Kl {bins: 2048} there"},
      {Observer(Percentile{.percent = 99, .bins = 64}, grid, 1),
       "methods are Percentile {percent: 99, bins: 2048} here and Percentile {percent: 99, "
       "bins: 64} there"},
      {Observer(method, affine, 1),
       "grids are Symmetric -127..127, HalfEven, Exact division, zero point AfterRounding, "
       "scale by QMax, floor 1e-12 here and Affine -127..127, HalfEven, Exact division, zero "
       "point AfterRounding, scale by QMax, floor 1e-12 there"},
      {Observer(method, grid, 3), "channels are 1 here and 3 there"}};
  Observer observer = observed(method, grid, {1, 2, not_a_number});
  const Observer before = observer;
  for (const Case& c : cases) {
    CHECK(error_text<GraphError>([&] { observer.merge(c.other); }) ==
          "cannot merge observers: " + c.error);
    CHECK(observer == before);
  }
}

TEST_CASE("observer: channels are apart, whatever map leads to them") {
  const Shape shape{4, 6, 5};
  Values x = gaussian(120);
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t row = i % 30 / 5;
    x[i] *= 1 + static_cast<double>(row) * 1e3;
  }
  for (const Granularity& granularity :
       {Granularity{}, Granularity{.axis = 0}, Granularity{.axis = 1}, Granularity{.axis = 2},
        Granularity{.axis = 1, .group_size = 3}, Granularity{.axis = 2, .group_size = 5},
        Granularity{.axis = 0, .group_size = 2}}) {
    const ChannelMap map(shape, granularity);
    std::vector<Values> split(static_cast<size_t>(map.channels));
    for (int64_t i = 0; i < 120; ++i) {
      split[static_cast<size_t>(map(i))].push_back(x[static_cast<size_t>(i)]);
    }
    for (const ObserverMethod& method : methods) {
      if (std::holds_alternative<Mix>(method)) continue;
      INFO("name_of(method) ", name_of(method), ", map.channels ", map.channels);
      Observer observer(method, grid, map.channels);
      observe(observer, x, map);
      const auto ranges = observer.ranges();
      for (size_t c = 0; c < split.size(); ++c) {
        CHECK(ranges[c] == range_by(method, grid, split[c]));
      }
    }
  }
}

TEST_CASE("observer: floats and doubles of the same values are the same data") {
  std::vector<float> narrow;
  for (const double value : gaussian(1000)) narrow.push_back(static_cast<float>(value));
  narrow.push_back(std::numeric_limits<float>::infinity());
  narrow.push_back(std::numeric_limits<float>::max());
  narrow.push_back(std::numeric_limits<float>::denorm_min());
  const Values wide(narrow.begin(), narrow.end());
  for (const ObserverMethod& method : methods) {
    Observer observer(method, grid, 1);
    observer.observe<float>(narrow, {});
    CHECK(observer == observed(method, grid, wide));
  }
}

TEST_CASE("observer: NaN and infinities are counted and skipped") {
  const Values clean = {1, -2, 0.5};
  const Values dirty = {infinity, 1, not_a_number, -2, -infinity, 0.5, -not_a_number};
  for (const ObserverMethod& method : methods) {
    CAPTURE(name_of(method));
    const Observer observer = observed(method, grid, dirty);
    CHECK(observer.non_finite() == 4);
    CHECK(observer.count() == 3);
    CHECK(observer.ranges() == observed(method, grid, clean).ranges());
  }
}

TEST_CASE("observer: errors before data and after nothing but NaN") {
  for (const ObserverMethod& method : methods) {
    if (detail::gives_qparams(method)) continue;
    Observer observer(method, grid, 5);
    const ChannelMap map({5, 4}, {.axis = 0});
    const auto error = [&] {
      return error_text<GraphError>([&] { (void)observer.qparams(); });
    };
    CHECK(!observer.calibrated());
    CHECK(error() ==
          "not calibrated: channel 0 observed no finite value; 0 NaN or infinite values were "
          "skipped");
    observe(observer, Values(20, not_a_number), map);
    CHECK(error() ==
          "not calibrated: channel 0 observed no finite value; 20 NaN or infinite values were "
          "skipped");
    Values x(20, 0);
    for (size_t i = 12; i < 16; ++i) x[i] = infinity;
    observe(observer, x, map);
    CHECK(!observer.calibrated());
    CHECK(error_text<GraphError>([&] { (void)observer.ranges(); }) ==
          "not calibrated: channel 3 observed no finite value; 24 NaN or infinite values were "
          "skipped");
    observe(observer, Values(20, 0), map);
    CHECK(observer.calibrated());
    CHECK(observer.ranges() == std::vector<ValueRange<double>>(5, {0, 0}));
    CHECK(observer.qparams()[3] == QParams<double>{1e-12, 0});
  }
}

TEST_CASE("observer: empty batches change nothing and reset forgets") {
  for (const ObserverMethod& method : methods) {
    CAPTURE(name_of(method));
    const Observer fresh(method, grid, 2);
    Observer observer = fresh;
    observe(observer, {}, ChannelMap({2, 0}, {.axis = 0}));
    CHECK(observer == fresh);
    observe(observer, {1, 2, infinity, 1e9}, ChannelMap({2, 2}, {.axis = 0}));
    CHECK(observer != fresh);
    CHECK(observer.count() == 3);
    observer.reset();
    CHECK(observer == fresh);
    CHECK(observer.method() == method);
    CHECK(observer.grid() == grid);
    CHECK(observer.channels() == 2);
  }
}

TEST_CASE("observer: batches of other channels are refused") {
  Observer observer(MinMax{}, grid, 2);
  CHECK(error_text<GraphError>([&] { observe(observer, {1}); }) ==
        "the observer has 2 channels, the data have 1");
  const ChannelMap groups({2, 2}, {.axis = 0, .group_size = 2});
  CHECK(error_text<GraphError>([&] { observe(observer, Values(6, 1.0), groups); }) ==
        "6 elements need channel 3, the data have 2 channels");
  const ChannelMap rows({2, 3}, {.axis = 0});
  CHECK(error_text<GraphError>([&] { observe(observer, Values(8, 1.0), rows); }) ==
        "8 elements are not a multiple of 2 channels of 3 elements");
  CHECK(observer.count() == 0);
}
