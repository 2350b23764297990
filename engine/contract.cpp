#include "qtape/engine/contract.h"

namespace qtape {

OpContract contract(const Op& op, std::span<const TensorType> operands) {
  return std::visit(
      [&](const auto& each) -> OpContract {
        const size_t slots = each.slots().size();
        check(operands.size() == slots, "expected {} operands, got {}", slots, operands.size());
        return {each.infer(operands), each.footprint(operands),
                guarantee_of<std::decay_t<decltype(each)>>()};
      },
      op);
}

}  // namespace qtape
