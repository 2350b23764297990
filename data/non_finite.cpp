#include "qtape/data/non_finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "qtape/core/printable.h"

namespace qtape::data {

namespace {

template <class Matches>
std::string first_with(const Dataset& dataset, bool targets, const Matches& matches) {
  const std::span<const Column> columns = dataset.columns();
  std::vector<float> values;
  for (int64_t sample = 0; sample < dataset.size(); ++sample) {
    for (size_t k = 0; k < columns.size(); ++k) {
      if (!is_float(columns[k].sample.dtype) || (columns[k].target && !targets)) continue;
      values.resize(static_cast<size_t>(columns[k].sample.elements()));
      dataset.read(k, sample, std::span(values));
      const auto found = std::ranges::find_if(values, matches);
      if (found == values.end()) continue;
      return fmt::format("; element {} of '{}' in sample {} of the data is {}",
                         found - values.begin(), printable(columns[k].name), sample, *found);
    }
  }
  return {};
}

}  // namespace

std::string first_non_finite(const Dataset& dataset) {
  return first_with(dataset, true, [](float v) { return !std::isfinite(v); });
}

std::string first_nan(const Dataset& dataset) {
  return first_with(dataset, false, [](float v) { return std::isnan(v); });
}

}  // namespace qtape::data
