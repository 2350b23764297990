// The ranges that methods choose, against searches over the raw data.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "qtape/tests/calibrate/observer_data.h"

using namespace qtape;
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

const std::vector<DataCase> data = {
    {"uniform", uniform(4000, -1, 1)},
    {"above 0", uniform(4000, 3, 5)},
    {"below 0", uniform(4000, -0.7, -0.2)},
    {"gaussian", gaussian(4000)},
    {"one side", exponential(4000, false)},
    {"two sides", exponential(4000, true)},
    {"outliers", with(gaussian(4000), {30, -24, 28})},
    {"outlier below", with(exponential(4000, false), {-20})},
    {"offset", with(gaussian(4000, 0.5), uniform(4000, 1, 3))}};

/// The least raw error of all ranges whose ends are multiples of 1/`steps` of the data's.
double least_raw_error(const Values& x, const Grid& grid, int steps, bool same_fraction) {
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

}  // namespace

TEST_CASE("observer: Histogram has the least squared error of all ranges") {
  for (const GridCase& g : grids) {
    for (const DataCase& d : data) {
      CAPTURE(g.name);
      CAPTURE(d.name);
      const ValueRange<double> range = range_by(Histogram{}, g.grid, d.x);
      check_within(range, d.x);
      const double error = raw_error(d.x, range, g.grid);
      const int steps = g.grid.scheme == Scheme::Symmetric ? 300 : 24;
      const double best = least_raw_error(d.x, g.grid, steps, false);
      const double all = raw_error(d.x, extent(d.x), g.grid);
      MESSAGE(g.name << " | " << d.name << " best " << error / best << " minmax " << error / all << " minmax/best " << all/best);
      CHECK(error <= 1.03 * best);
      CHECK(error <= all);
    }
  }
}

TEST_CASE("observer: Mse has the least squared error of the shrunk ranges") {
  for (const GridCase& g : grids) {
    for (const DataCase& d : data) {
      CAPTURE(g.name);
      CAPTURE(d.name);
      const ValueRange<double> range = range_by(Mse{}, g.grid, d.x);
      check_within(range, d.x);
      const double error = raw_error(d.x, range, g.grid);
      const double best = least_raw_error(d.x, g.grid, 100, true);
      const double all = raw_error(d.x, extent(d.x), g.grid);
      MESSAGE(g.name << " | " << d.name << " best " << error / best << " minmax " << error / all);
      CHECK(error <= 1.03 * best);
      CHECK(error <= all);
    }
  }
}

TEST_CASE("kl") {
  for (const GridCase& g : grids) {
    for (const DataCase& d : data) {
      for (const char* m : {"Kl","Percentile","ClipStd","Mix"}) {
      const ValueRange<double> range = range_by(observer_method(m), g.grid, d.x);
      check_within(range, d.x);
      MESSAGE(g.name << " | " << d.name << " | " << std::string(m) << " " << range.min << " " << range.max << " of " << extent(d.x).min << " " << extent(d.x).max);
      }
    }
  }
}
