// The data that commands run models on.
#pragma once

#include <string>

#include "qtape/engine/graph.h"
#include "qtape/examples/data/dataset.h"
#include "qtape/integer/integer_program.h"

namespace qtape::tool {

/// Features of the first input [batch, features]; 0 where there is none.
int64_t features_of(const Graph& graph);
int64_t features_of(const IntegerProgram& program);

/// MNIST-format files of a directory or, for an empty name, what programs generate that train
/// on `features`: keywords where these have as many, else digits; `samples` of them for
/// training. Throws IoError or FormatError.
data::Split load_data(const std::string& directory, int64_t features, int64_t samples = 0);

}  // namespace qtape::tool
