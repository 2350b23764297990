#include "qtape/engine/contract.h"

#include "qtape/ops/op_queries.h"

namespace qtape {

OpContract contract(const Op& op, std::span<const TensorType> operands) {
  const size_t slots = slots_of(op).size();
  check(operands.size() == slots, "expected {} operands, got {}", slots, operands.size());
  return {output_type(op, operands), footprint_of(op, operands), traits_of(op).guarantee};
}

}  // namespace qtape
