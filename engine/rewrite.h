// Copies of graphs and integer programs with some nodes changed.
#pragma once

#include <vector>

#include "qtape/engine/node_id.h"

namespace qtape {

/// Copies the nodes and outputs of `from` to `to`, which may have nodes already. `add(id,
/// operands)` adds the copy of node `id` to `to` and returns it; `operands` are the copies of
/// its operands. A node may be left out by returning a NodeId without an index or that of
/// another copy. Returns the copies.
template <class Nodes, class Add>
NodeMap<IdIn<Nodes>, Nodes> rewrite(const Nodes& from, Nodes& to, const Add& add) {
  NodeMap<IdIn<Nodes>, Nodes> copies(from);
  std::vector<IdIn<Nodes>> operands;
  for (const IdIn<Nodes> id : ids(from)) {
    operands.clear();
    for (const IdIn<Nodes> operand : from[id].operands) operands.push_back(copies[operand]);
    copies[id] = add(id, operands);
  }
  to.copy_outputs(from, copies);
  return copies;
}

}  // namespace qtape
