// A graph and its integer form, shared by all layouts of a tape.
#pragma once

#include <memory>
#include <utility>

#include "qtape/integer/rules/lowering.h"

namespace qtape {

struct LoweredGraph {
  std::shared_ptr<const Graph> graph;
  Lowered integers;

  explicit LoweredGraph(std::shared_ptr<const Graph> lowered)
      : graph(std::move(lowered)), integers(lower(*graph)) {}
};

}  // namespace qtape
