// What is asked of an op that may be a quantizer.
#pragma once

#include "qtape/ops/core/quantizer_op.h"
#include "qtape/ops/ops.h"

namespace qtape {

/// Whether `op` satisfies the concept Quantizer.
bool is_quantizer(const Op& op);
/// How the quantizer `op` cuts x. Throws GraphError for other ops.
Granularity granularity_of(const Op& op);
/// The grid of the quantizer `op`. Throws GraphError for other ops.
Grid grid_of(const Op& op);
/// What the quantizer `op` needs after x. Throws GraphError for other ops.
std::vector<QuantizerOperand> operands_of(const Op& op);

/// What `body` makes of `op`, whichever quantizer it is. Throws GraphError for other ops.
template <class Body>
auto visit_quantizer(const Op& op, const Body& body) {
  using Result = decltype(body(FakeQuantize{}));
  return std::visit(
      [&]<class T>(const T& each) -> Result {
        if constexpr (Quantizer<T>) return body(each);
        fail<GraphError>("{} is not a quantizer", T::name);
      },
      op);
}

}  // namespace qtape
