#include "qtape/ops/ops.h"

namespace qtape {

Op::Op() = default;
Op::Op(const Op&) = default;
Op::Op(Op&&) noexcept = default;
Op& Op::operator=(const Op&) = default;
Op& Op::operator=(Op&&) noexcept = default;
Op::~Op() = default;

bool Op::operator==(const Op& other) const {
  return static_cast<const OpAlternatives&>(*this) == static_cast<const OpAlternatives&>(other);
}

}  // namespace qtape
