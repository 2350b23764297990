#include "qtape/integer/rules/signs.h"

#include <algorithm>

#include "qtape/integer/rules/rule_table.h"
#include "qtape/ops/op_queries.h"

namespace qtape {

bool Signs::never_negative(NodeId id) {
  const Node& node = graph_[id];
  std::optional<bool>& known = known_[at(id)];
  if (!known) known = judge(node);
  return *known;
}

bool Signs::judge(const Node& node) {
  const auto operand = [&](NodeId each) { return never_negative(each); };
  const OpTraits& traits = traits_of(node.op);
  if (traits.quantizer) return operand(node.operands[0]);
  if (const auto limits = limits_of(node.op); limits && limits->low >= 0) return true;
  return traits.sign == Sign::NeverNegative ||
         (traits.sign == Sign::Kept && std::ranges::all_of(node.operands, operand));
}

}  // namespace qtape
