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

}  // namespace qtape::tool
