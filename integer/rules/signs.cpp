#include "qtape/integer/rules/signs.h"

#include <algorithm>

#include "qtape/integer/rules/rule_table.h"
#include "qtape/ops/op_queries.h"

namespace qtape {

Signs::Signs(const Graph& graph, const std::function<bool(NodeId)>& known) {
  const auto operand = [&](NodeId each) { return never_negative(each); };
  for (const NodeId id : ids(graph)) {
    const Node& node = graph[id];
    const OpTraits& traits = traits_of(node.op);
    const auto limits = limits_of(node.op);
    const bool kept = traits.sign == Sign::Kept && std::ranges::all_of(node.operands, operand);
    never_negative_.push_back((known && known(id)) ||
                              (traits.quantizer ? operand(node.operands[0])
                                                : (limits && limits->low >= 0) || kept ||
                                                      traits.sign == Sign::NeverNegative));
  }
}

}  // namespace qtape
