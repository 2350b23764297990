// Finds NaN and infinite values in data sets.
#pragma once

#include <string>

#include "qtape/data/dataset.h"

namespace qtape::data {

/// Returns `; element 3 of 'x' in sample 17 of the data is nan` (both from 0) for the first
/// sample with a NaN or infinite float, as read; empty if all are finite. Reads all samples
/// up to that one. Throws IoError for columns in files that cannot be read.
std::string first_non_finite(const Dataset& dataset);
/// Does the same for the first sample with a NaN in a column other than a target.
std::string first_nan(const Dataset& dataset);

}  // namespace qtape::data
