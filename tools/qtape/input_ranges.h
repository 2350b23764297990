// Errors of the columns of inputs by their quantizers.
#pragma once

#include "qtape/data/dataset.h"
#include "qtape/model/model.h"

namespace qtape::tool {

/// Prints the inputs of which a column, an index of the last axis, is changed too much by the
/// quantizer that reads the input, relative to its standard deviation: one scale serves all
/// columns, so columns of other units lose what they vary by. Reads at most 1000 samples.
/// Columns that do not vary do not count.
void note_narrow_columns(const Model& model, const data::Dataset& set);

/// Warns of inputs of which few samples, at most one of 100, have values that are more than ten
/// times as large as those of all others: they set the scale of its quantizer. Reads at most
/// 1000 samples.
void warn_of_far_samples(const Model& model, const data::Dataset& set);

}  // namespace qtape::tool
