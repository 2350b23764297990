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

std::string_view name_of(const Op& op) {
  return std::visit([](const auto& each) { return std::decay_t<decltype(each)>::name; }, op);
}

}  // namespace qtape
