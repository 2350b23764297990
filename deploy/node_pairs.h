// Correspondence of the nodes of two integer programs.
#pragma once

#include <string>
#include <vector>

#include "qtape/deploy/compare.h"

namespace qtape {

/// Pairs of nodes, each in at most one.
struct NodePairs {
  std::vector<NodePair> inputs;  ///< in the order of the first program
  std::vector<NodePair> others;  ///< in the order of the first program
  std::vector<ProgramNodeId> only_a;
  std::vector<ProgramNodeId> only_b;
};

/// Pairs the nodes of `a` and `b` as ProgramComparison states. Throws ArgumentError, naming the
/// programs `name_a` and `name_b`, if their inputs or outputs differ in number, dtype or shape.
NodePairs pair_nodes(const IntegerProgram& a, const IntegerProgram& b,
                     const std::string& name_a, const std::string& name_b);

}  // namespace qtape
