// Area under the ROC curve: measures how well a score separates two sets.
#pragma once

#include <span>

namespace qtape {

/// Returns the share of all pairs (normal, anomalous) in which the anomalous score is larger;
/// ties count half. 0.5 for guessing, 1 for perfect separation. Mann-Whitney statistic by
/// ranks, O(n log n). Throws ArgumentError for an empty set and for NaN.
double area_under_curve(std::span<const double> normal, std::span<const double> anomalous);

}  // namespace qtape
