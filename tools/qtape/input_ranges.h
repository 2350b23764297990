// Errors of the columns of inputs by their quantizers.
#pragma once

#include <cstdint>
#include <vector>

#include "qtape/data/dataset.h"
#include "qtape/model/model.h"

namespace qtape::tool {

/// Prints the inputs of which a column, an index of the last axis, is changed too much by the
/// quantizer that reads the input, relative to its standard deviation: one scale serves all
/// columns, so columns of other units lose what they vary by. Reads the first `samples`, at
/// most 1000. Columns that do not vary do not count.
void note_narrow_columns(const Model& model, const data::Dataset& set, int64_t samples);

/// Returns the samples, in order, with values of an input that are more than ten times as large
/// as those of all others. These are at most one of 100, but at least one; of fewer than 20
/// samples there are none.
std::vector<int64_t> far_samples(const Model& model, const data::Dataset& set);

/// Warns of such samples among the first `samples`, with which quantizers were calibrated, if
/// they set the scale of the input.
void warn_of_far_samples(const Model& model, const data::Dataset& set, int64_t samples);

}  // namespace qtape::tool
