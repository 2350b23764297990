#include "qtape/integer/training/held_codes.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "qtape/engine/quantizers.h"
#include "qtape/ops/op_queries.h"

namespace qtape {

std::vector<bool> shown_by(const Graph& graph, std::span<const NodeId> kept) {
  std::vector<bool> shown(static_cast<size_t>(graph.size()));
  for (NodeId id : kept) shown[at(id)] = true;
  for (size_t i = shown.size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    if (!shown[i] || !keep_of(node.op).view) continue;
    shown[at(node.operands[0])] = true;
  }
  return shown;
}

bool has_byte_codes(const Graph& graph, const Lowered& lowered, NodeId id) {
  const IntegerForm& form = lowered[id];
  const bool codes = form.kind == IntegerKind::Codes || form.kind == IntegerKind::Weight;
  if (!codes || form.source != id || form.is_limited()) return false;
  if (graph[id].type.dtype != DType::F32) return false;
  return size_of(lowered.op(id).numbers.grid.dtype) == 1;
}

IntegerValue codes_within(const Grid& grid, const Shape& shape) {
  return {{code_dtype(grid.limits), shape}, {1}, 0, grid.limits.q_min, grid.limits.q_max};
}

int64_t bound_of_products(const IntegerValue& x, int64_t terms) {
  const int64_t farthest = std::max(std::abs(x.low), std::abs(x.high)) + (x.high - x.low);
  return terms * 128 * farthest;
}

void fill_without_codes(std::span<float> y) {
  std::ranges::fill(y, std::numeric_limits<float>::quiet_NaN());
}

}  // namespace qtape
