#include "qtape/model/area_under_curve.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "qtape/core/error.h"

namespace qtape {

double area_under_curve(std::span<const double> normal, std::span<const double> anomalous) {
  require<ArgumentError>(!normal.empty() && !anomalous.empty(),
                         "area_under_curve: expected scores in both sets, got {} and {}",
                         normal.size(), anomalous.size());
  for (const auto& scores : {normal, anomalous}) {
    require<ArgumentError>(
        std::ranges::none_of(scores, [](double score) { return std::isnan(score); }),
        "area_under_curve: a score is NaN");
  }
  std::vector<double> sorted(normal.begin(), normal.end());
  std::ranges::sort(sorted);
  // Twice the number of pairs: an integer, so that the order of summation does not matter.
  uint64_t twice = 0;
  for (const double score : anomalous) {
    const auto [first, last] = std::equal_range(sorted.begin(), sorted.end(), score);
    twice += static_cast<uint64_t>((first - sorted.begin()) + (last - sorted.begin()));
  }
  return static_cast<double>(twice) / 2.0 /
         (static_cast<double>(normal.size()) * static_cast<double>(anomalous.size()));
}

}  // namespace qtape
