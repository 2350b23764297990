// Median of measured times.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace qtape {

/// Returns the upper median, or 0 if `values` is empty. Reorders `values`.
inline double median(std::vector<double>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace qtape
