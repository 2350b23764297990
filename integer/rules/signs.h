// Signs of values, as far as ops determine them.
#pragma once

#include <optional>
#include <vector>

#include "qtape/engine/graph.h"

namespace qtape {

/// Finds values that are never negative, whatever the inputs and the parameters are. The graph
/// must outlive it.
class Signs {
 public:
  explicit Signs(const Graph& graph)
      : graph_(graph), known_(static_cast<size_t>(graph.size())) {}

  /// True if the ops that compute the value allow no negative element. Quantizers count as
  /// their operand.
  bool never_negative(NodeId id);

 private:
  bool judge(const Node& node);

  const Graph& graph_;
  std::vector<std::optional<bool>> known_;  // each node is judged once
};

}  // namespace qtape
