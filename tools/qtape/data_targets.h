// Checks that targets of data fit the answers of a model.
#pragma once

#include <string>

#include "qtape/tools/qtape/data.h"

namespace qtape::tool {

/// Throws ArgumentError, which begins with `place`, unless each target is labels, of samples or
/// of positions, has the shape of an answer, or is for an input of a loss. Prints notes of
/// targets that may be meant as classes and of those that are not scored.
void check_targets(const data::Dataset& set, const std::string& place, const DataNeeds& needs);

/// Throws ArgumentError, which begins with `place`, for labels of samples that are not classes
/// of their answer.
void check_classes(const data::Dataset& set, const std::string& place, const DataNeeds& needs);

}  // namespace qtape::tool
