// Signs of values, as far as ops determine them.
#pragma once

#include <functional>
#include <vector>

#include "qtape/engine/graph.h"

namespace qtape {

/// Finds values that are never negative, whatever the inputs and the parameters are.
class Signs {
 public:
  /// Nodes for which `known` is true count as never negative.
  explicit Signs(const Graph& graph, const std::function<bool(NodeId)>& known = {});

  /// True if the ops that compute the value allow no negative element. Quantizers count as
  /// their operand.
  bool never_negative(NodeId id) const { return never_negative_.at(at(id)); }

 private:
  std::vector<bool> never_negative_;
};

}  // namespace qtape
