// Area under the ROC curve: how well a score tells two sets apart.
#pragma once

#include <span>

namespace qtape {

/// The part of all pairs (normal, anomalous) in which the anomalous score is the larger one,
/// equal scores counting half: 0.5 for guessing, 1 for perfect. Mann and Whitney's statistic by
/// ranks, O(n log n). Throws ArgumentError for an empty set and for NaN.
double area_under_curve(std::span<const double> normal, std::span<const double> anomalous);

}  // namespace qtape
