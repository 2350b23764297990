// Drawings of models and integer programs in the language of Graphviz.
#pragma once

#include <cstdint>
#include <string>

#include "qtape/deploy/any_file.h"

namespace qtape::tool {

/// A drawing, and the number of nodes and edges in it.
struct Drawing {
  std::string text;  ///< input of `dot`
  int64_t nodes = 0;
  int64_t edges = 0;
};

Drawing draw(const SavedModel& model);
Drawing draw(const IntegerProgram& program);

}  // namespace qtape::tool
